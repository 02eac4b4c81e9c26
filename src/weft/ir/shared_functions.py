"""The parts of a module, and functions that modules share under names of their contents."""

from __future__ import annotations

import hashlib
import re
from dataclasses import field, replace

from weft.records import dataclass

OWN = ("run", "round", "start", "release", "stall", "warp")
"""Functions that each kernel has of its own; all others may be shared."""

NAME = re.compile(r"%[\w.]+")
_REFERENCE = re.compile(r"@[\w.]+")
_SHARED = re.compile(r"@(weft_\w+)")
_HEAD = re.compile(r"define (?:internal )?(.*?) ?@([\w.]+)\((.*)\) (#\d) \{")


@dataclass(slots=True)
class ModuleParts:
    """The parts of a module's text."""

    functions: dict[str, str] = field(default_factory=dict)
    constants: dict[str, str] = field(default_factory=dict)
    declarations: dict[str, str] = field(default_factory=dict)
    footer: list[str] = field(default_factory=list)


def parts(text: str) -> ModuleParts:
    """Split the text of a module."""
    module = ModuleParts()
    head = ""
    lines: list[str] = []
    for line in text.split("\n"):
        if head:
            lines.append(line)
            if line == "}":
                module.functions[head] = "\n".join(lines)
                head = ""
        elif line.startswith("define"):
            head, lines = line[line.index("@") + 1 : line.index("(")], [line]
        elif line.startswith("@"):
            module.constants[line[: line.index(" ")]] = line
        elif line.startswith("declare"):
            module.declarations[line[line.index("@") : line.index("(")]] = line
        else:
            module.footer.append(line)
    return module


def without_incomplete(module: ModuleParts) -> ModuleParts:
    """The module without functions that refer, directly or not, to missing functions."""
    functions = dict(module.functions)
    others = module.constants.keys() | module.declarations.keys()
    while True:
        there = others | {f"@{name}" for name in functions}
        incomplete = [
            n for n, x in functions.items() if not there.issuperset(_REFERENCE.findall(x))
        ]
        if not incomplete:
            return replace(module, functions=functions)
        for name in incomplete:
            del functions[name]


def declaration(function: str) -> str:
    """The declaration of a function in a module that only calls it."""
    head = _HEAD.match(function)
    assert head is not None, function[:200]
    return f"declare {head[1]} @{head[2]}({NAME.sub('', head[3])}) {head[4]}"


def callees(function: str) -> list[str]:
    """Names of the shared functions that a function calls."""
    return _SHARED.findall(function.partition("\n")[2])


class Shared:
    """Functions under names that are digests of their contents."""

    def __init__(self, module: ModuleParts) -> None:
        self._module = module
        self._names: dict[str, str] = {}
        self.functions: dict[str, str] = {}
        self.inlined: dict[str, str] = {}
        """Always inlined: each module has them of its own."""

    def renamed(self, text: str) -> str:
        """`text` with the shared names of the functions that it calls."""
        return _REFERENCE.sub(lambda m: self._name(m[0]), text)

    def _name(self, reference: str) -> str:
        name = self._names.get(reference)
        if name is None:
            name = self._share(reference)
        return name

    def _share(self, reference: str) -> str:
        text = self._module.functions.get(reference[1:])
        inlined = text is not None and text.partition("\n")[0].endswith("#1 {")
        if text is None or inlined or reference[1:] in OWN:
            name = self._names[reference] = reference
            if inlined and text is not None:
                self.inlined[reference] = self.renamed(text)
            return name
        # Known before its callees, which may call it again.
        name = self._names[reference] = f"@{_digest(reference, *self._closure(reference))}"
        self.functions[name[1:]] = self.renamed(text).replace("define internal", "define", 1)
        return name

    def _closure(self, reference: str) -> list[str]:
        """The function with all that it calls and reads."""
        texts: dict[str, str] = {}
        waiting = [reference]
        while waiting:
            name = waiting.pop()
            text = self._module.functions.get(name[1:]) or self._module.constants.get(name)
            if text is not None and name not in texts:
                texts[name] = text
                waiting += _REFERENCE.findall(text)
        return [texts[name] for name in sorted(texts)]

    def add(self, text: str) -> str:
        """Add a function whose head has no name yet: `@(`. Return the name."""
        parts = [text]
        for reference in _REFERENCE.findall(text):
            parts += self._closure(reference)  # shared functions have been renamed
        name = _digest(*parts)
        self.functions[name] = text.replace("@(", f"@{name}(", 1)
        return f"@{name}"


def _digest(*texts: str) -> str:
    """A name that is the digest of texts."""
    return f"weft_{hashlib.sha256(chr(0).join(texts).encode()).hexdigest()[:24]}"
