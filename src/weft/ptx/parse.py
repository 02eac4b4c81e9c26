"""PTX text to a `PtxModule`: the statements of a module, and the headers of its functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from weft.errors import PtxError
from weft.ptx import declare
from weft.ptx.body import read_body
from weft.ptx.lexer import NAME, PtxText, brief
from weft.ptx.lines import SourceLines
from weft.ptx.model import Instruction, PtxFunction, PtxModule

LINKAGES = ("extern", "visible", "weak", "common")
TUNING = (
    "maxntid", "reqntid", "minnctapersm", "maxnctapersm", "maxnreg", "maxclusterrank",
    "explicitcluster", "reqnctapercluster", "blocksareclusters", "noreturn", "abi_preserve",
    "abi_preserve_control",
)  # fmt: skip
"""Performance directives between a function's header and its body."""

_NAMES = re.compile(NAME, re.A)
_WORD = re.compile(r"[\s;]*\.([a-z_]\w*)", re.A)
_VERSION = re.compile(r"\s*([0-9]{1,3}\.[0-9]{1,3})(?![\w.])", re.A)
_TARGET = re.compile(r"\s*([a-z]\w*(?:[ \t]*,\s*[a-z]\w*)*)", re.A)
_ADDRESS_SIZE = re.compile(r"\s*(32|64)(?!\w)", re.A)
_FILE = re.compile(r'\s*[0-9]{1,9}\s*"[^"\n]*"(?:\s*,\s*[0-9]{1,20}\s*,\s*[0-9]{1,20})?', re.A)
_SECTION = re.compile(r"\s*\.?[\w.$]+\s*\{[^{}]*\}", re.A)
_TO_SEMICOLON = re.compile(r"([^;]*);")
_ALIAS = re.compile(rf"\s*({NAME})\s*,\s*({NAME})\s*;", re.A)
_HEADER = re.compile(
    rf"\s*(?:\.attribute\s*\((?:[^()]|\([^()]*\))*\)\s*)?(?:\(([^()]*)\)\s*)?"
    rf"({NAME})(?:\s*\(([^()]*)\))?",
    re.A,
)
_TUNING = re.compile(
    r'\s*\.([a-z_]\w*)\s*("[^"\n]*"(?:\s*,\s*"[^"\n]*")*\s*;?'
    r"|[0-9]{1,10}(?!\w)(?:\s*,\s*[0-9]{1,10}(?!\w))*)?",
    re.A,
)


def parse(
    text: str, sources: Mapping[str, str] = MappingProxyType({}), *, name: str = "kernel.ptx"
) -> PtxModule:
    """Read a whole PTX file; every fault in it is a PtxError with `name`:line.

    `sources` maps file names, as `.file` spells them, to their text: errors quote it.
    """
    source = PtxText(text, name)
    reader = _ModuleReader(source, sources)
    try:
        return reader.read()
    except PtxError as error:
        raise source.locate(error) from None


class _ModuleReader:
    def __init__(self, source: PtxText, sources: Mapping[str, str]) -> None:
        self.source, self.text = source, source.text
        self.lines = SourceLines(source.text, sources)
        self.module = PtxModule("", "", 64, files=self.lines.files)
        self.linkage = ""
        self.outside: dict[str, set[str]] = {}
        self.aliases: list[tuple[int, str, str]] = []
        self.handlers: dict[str, Callable[[int], int]] = {
            "version": self._version, "target": self._target, "address_size": self._address_size,
            "file": self._file, "section": self._section, "pragma": self._skip, "tex": self._skip,
            "alias": self._alias, "entry": self._entry, "func": self._func,
        }  # fmt: skip

    def read(self) -> PtxModule:
        pos = 0
        while (start := self._skip_semicolons(pos)) < len(self.text):
            pos = self._statement(start)
        if not self.module.version:
            raise PtxError(
                "PTX starts with its version", got=self.source.excerpt(0), allowed=".version 8.0"
            )
        # An alias, a body or an initialiser may use a name that is declared later in the file:
        # names are checked at the end.
        self._resolve_aliases()
        self._check_names()
        return self.module

    def _skip_semicolons(self, pos: int) -> int:
        pos = self.source.skip_blank(pos)
        while self.text[pos : pos + 1] == ";":
            pos = self.source.skip_blank(pos + 1)
        return pos

    def _statement(self, pos: int) -> int:
        # `.visible` and the like are read as a step of their own. An error in the declaration that
        # follows is still located at the linkage.
        if not self.linkage:
            self.source.pos = pos
        found = _WORD.match(self.text, pos)
        word = found.group(1) if found else ""
        if found and not self.module.version and word != "version":
            raise PtxError(
                "PTX starts with its version", got=self.source.excerpt(pos), allowed=".version 8.0"
            )
        if found and word in LINKAGES:
            self.linkage = word
            return found.end()
        if found and word in declare.SPACES:
            return self._variables(word, found.end())
        if found is None or word not in self.handlers:
            known = (*self.handlers, *LINKAGES, *declare.SPACES)
            raise PtxError(
                "not a statement of a module",
                got=self.source.excerpt(pos),
                allowed=" ".join(f".{name}" for name in known),
            )
        end = self.handlers[word](found.end())
        self.linkage = ""
        return end

    def _expect(self, pattern: re.Pattern[str], pos: int, allowed: str) -> re.Match[str]:
        found = pattern.match(self.text, pos)
        if found is None:
            raise PtxError(
                "a directive is not well formed",
                got=self.source.excerpt(self.source.pos),
                allowed=allowed,
            )
        return found

    def _version(self, pos: int) -> int:
        found = self._expect(_VERSION, pos, ".version 8.0")
        self.module.version = found.group(1)
        return found.end()

    def _target(self, pos: int) -> int:
        found = self._expect(_TARGET, pos, ".target sm_80")
        # Options after the architecture (`.target sm_80, debug`) change nothing here.
        self.module.target = found.group(1).partition(",")[0].strip()
        return found.end()

    def _address_size(self, pos: int) -> int:
        found = self._expect(_ADDRESS_SIZE, pos, ".address_size 64 (or 32)")
        self.module.address_size = int(found.group(1))
        return found.end()

    def _file(self, pos: int) -> int:
        # Only its syntax is checked: `SourceLines` has read every `.file` before, since compilers
        # write them at the end.
        return self._expect(_FILE, pos, '.file 1 "name.cu"').end()

    def _section(self, pos: int) -> int:
        return self._expect(_SECTION, pos, ".section .debug_str { ... }").end()

    def _skip(self, pos: int) -> int:
        return self._expect(_TO_SEMICOLON, pos, "a statement that ends in ;").end()

    def _alias(self, pos: int) -> int:
        found = self._expect(_ALIAS, pos, ".alias new, old;")
        self.aliases.append((self.source.pos, found.group(1), found.group(2)))
        return found.end()

    def _variables(self, space: str, pos: int) -> int:
        found = self._expect(_TO_SEMICOLON, pos, "a declaration that ends in ;")
        known = self.module.variables
        for variable in declare.variables(space, found.group(1), self.linkage):
            before = known.get(variable.name)
            if before and "extern" not in (before.linkage, variable.linkage):
                raise PtxError("a variable is declared twice", got=brief(variable.name))
            # The definition wins over an extern declaration, whichever comes first.
            if before is None or before.linkage == "extern":
                known[variable.name] = variable
        self.linkage = ""
        return found.end()

    def _entry(self, pos: int) -> int:
        return self._function(pos, is_entry=True)

    def _func(self, pos: int) -> int:
        return self._function(pos, is_entry=False)

    def _function(self, pos: int, is_entry: bool) -> int:
        found = self._expect(_HEADER, pos, ".entry name (parameters), .func (returns) name (...)")
        returns, name, params = found.groups()
        function = PtxFunction(name, is_entry, is_declaration=True)
        function.returns, _ = declare.parameters(returns or "")
        function.params, function.param_bytes = declare.parameters(params or "")
        pos = self._tuning(function, found.end())
        if self.text[pos : pos + 1] == "{":
            function.is_declaration = False
            pos, self.outside[name] = read_body(self.source, self.lines, function, pos)
        elif self.text[pos : pos + 1] == ";":
            pos += 1
        else:
            raise PtxError(
                f"{brief(name)} has neither a body nor a ;",
                got=self.source.excerpt(pos),
                allowed="{ ... } or ;",
            )
        self._add(function)
        return pos

    def _tuning(self, function: PtxFunction, pos: int) -> int:
        while found := _TUNING.match(self.text, pos):
            word, values = found.group(1), found.group(2) or ""
            if word in TUNING and values[:1] != '"':
                function.directives[word] = tuple(map(int, values.split(","))) if values else ()
            # A pragma is a hint to ptxas that changes no result; it is the only one with strings.
            elif word != "pragma":
                raise PtxError(
                    "not a directive of a function",
                    got=self.source.excerpt(pos),
                    allowed=" ".join(f".{known}" for known in TUNING),
                )
            pos = found.end()
        return self.source.skip_blank(pos)

    def _add(self, function: PtxFunction) -> None:
        known = self.module.functions
        before = known.get(function.name)
        if before and not before.is_declaration and not function.is_declaration:
            raise PtxError("a function is defined twice", got=brief(function.name))
        # A declaration after the definition must not replace the body.
        if before is None or before.is_declaration:
            known[function.name] = function

    def _resolve_aliases(self) -> None:
        for pos, name, original in self.aliases:
            self.source.pos = pos
            if original not in self.module.functions:
                raise PtxError("an alias of an unknown function", got=brief(original))
            self.module.functions[name] = replace(self.module.functions[original], name=name)

    def _check_names(self) -> None:
        """Every name that a body or an initialiser took from outside must be declared."""
        known = self.module.functions.keys() | self.module.variables.keys()
        for function, names in self.outside.items():
            if names - known:
                raise self._undeclared(self.module.functions[function], min(names - known))
        for variable in self.module.variables.values():
            for _, name, _, _ in variable.relocations:
                if name not in known:
                    # A variable keeps no position: the first mention of its name locates the error.
                    self.source.pos = max(0, self.text.find(variable.name))
                    raise PtxError(
                        f"the initialiser of {brief(variable.name)} names something unknown",
                        got=brief(name),
                        allowed="a variable or a function of the module",
                    )

    def _undeclared(self, function: PtxFunction, name: str) -> PtxError:
        users = (item for item in function.body if isinstance(item, Instruction))
        user = next((item for item in users if name in _NAMES.findall(item.text)), None)
        self.source.loc = user.loc if user else None
        error = PtxError(
            f"{brief(name)} is not declared",
            got=brief(user.text if user else name),
            allowed="a label of the function, a variable or a function",
        )
        return self.source.locate(error, line=user.ptx_line if user else 0)
