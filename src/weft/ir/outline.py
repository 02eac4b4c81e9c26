"""Outlining for drafts: vector instructions become calls of small functions that kernels share.

LLVM selects most scalar instructions quickly, and vectors of 32 lanes slowly: each is split into
many registers. A kernel repeats a few vector operations again and again. `outline` replaces them in
a kernel's own functions by calls. Vectors pass through memory, each in a slot on the stack. The
functions are named by their contents, so that kernels share their machine code; the helpers of a
module are shared in the same way.

The instructions and their order stay the same, and so do the results. Frames and registers stay the
same: full code of the same IR can continue the blocks that a draft has begun.
"""

from __future__ import annotations

import re

from weft.ir.shared_functions import (
    NAME,
    OWN,
    ModuleParts,
    Shared,
    declaration,
    parts,
    without_incomplete,
)
from weft.ir.slots import load, store, stored
from weft.records import dataclass

_SCALAR = re.compile(r"\b(ptr|i\d+|float|double|half) (%[\w.]+)")
_PHI = re.compile(r"  (%[\w.]+) = phi (<[^>]+>) (.*)")
_INCOMING = re.compile(r"\[ ([^\]]*), (%[\w.]+) \]")
_VECTOR = re.compile(r"<(\d+) x (\w+)>")
_NUMBER = re.compile(r"(?<!splat \()\b(i32|i64) (-?\d+)(?=[,)])")
_LITERAL = "%int."
"""A number that is passed like a name: the place of a memory access, mostly."""
_PURE = {
    "add", "sub", "mul", "and", "or", "xor", "shl", "lshr", "ashr", "udiv", "urem", "sdiv",
    "srem", "sext", "zext", "trunc", "bitcast", "inttoptr", "ptrtoint", "getelementptr", "icmp",
    "fcmp", "select", "load",
}  # fmt: skip
"""Scalar instructions that may move above vector ones that write nothing."""
_CAST = {
    "trunc", "zext", "sext", "bitcast", "fptrunc", "fpext", "fptosi", "fptoui", "sitofp",
    "uitofp", "inttoptr", "ptrtoint",
}  # fmt: skip

_LONGEST = 24
"""Instructions of one outlined function: longer ones are not shared."""


class CannotOutline(Exception):
    """Error: IR that cannot be outlined: vectors that a loop exchanges or merges with constants."""


@dataclass(slots=True)
class Outlined:
    """A kernel's own functions, and the shared ones that they call, by name."""

    kernel: str
    shared: dict[str, str]
    common: str
    """Constants and declarations that `shared` refers to."""


def outline(text: str) -> Outlined:
    """The module in two parts; raises Unsupported."""
    module = parts(text)
    shared = _helpers(module)
    kernel = [_Outliner(module.functions[n], shared).text() for n in OWN if n in module.functions]
    return _outlined(module, shared, kernel)


def helpers(text: str) -> Outlined:
    """The functions that kernels share, of a module of which a part has been written.

    Those that call functions which are not yet written are left out.
    """
    module = without_incomplete(parts(text))
    return _outlined(module, _helpers(module), [])


def _helpers(module: ModuleParts) -> Shared:
    shared = Shared(module)
    for name in module.functions:
        shared.renamed(f"@{name}")
    return shared


def _outlined(module: ModuleParts, shared: Shared, kernel: list[str]) -> Outlined:
    tail = "\n".join([*module.declarations.values(), *module.footer])
    constants = "\n".join(module.constants.values())
    inlined = "\n".join(shared.inlined.values())
    declared = "\n".join(map(declaration, shared.functions.values()))
    return Outlined(
        "\n".join([constants, *kernel, inlined, declared, tail]),
        dict(shared.functions),
        "\n".join([constants, inlined, tail]),
    )


def _result(rhs: str) -> str:
    """The type of an instruction's result."""
    operation = rhs.partition(" ")[0]
    if operation in _CAST:
        return rhs.rpartition(" to ")[2].partition(",")[0]
    vector = _VECTOR.search(rhs)
    assert vector is not None, rhs
    if operation == "extractelement":
        return vector[2]
    if operation in ("icmp", "fcmp"):
        return f"<{vector[1]} x i1>"
    if operation == "shufflevector":
        count = re.findall(r"<(\d+) x i32> ", rhs)[-1]
        return f"<{count} x {vector[2]}>"
    if operation == "select":
        return [v[0] for v in _VECTOR.finditer(rhs)][0 if rhs.startswith("select i1") else 1]
    if operation == "getelementptr":
        return f"<{vector[1]} x ptr>"
    if operation == "call":
        kind = rhs[: rhs.index("@")].split(" ", 1)[1].strip()
        vector = _VECTOR.search(kind)
        return vector[0] if vector is not None else kind.rpartition(" ")[2]
    return vector[0]


@dataclass(frozen=True, slots=True)
class _Group:
    """An outlined function and how it is called.

    inputs   position and type of each name that is passed; "" for a vector's slot
    outputs  positions of vectors that it leaves in slots
    result   its return type
    """

    name: str
    inputs: tuple[tuple[int, str], ...]
    outputs: tuple[int, ...]
    result: str


class _Outliner:
    """Rewrites one function."""

    def __init__(self, text: str, shared: Shared) -> None:
        self._shared = shared
        self._lines = text.split("\n")
        self._types: dict[str, str] = {}
        self._last: dict[str, int] = {}
        self._wide: set[str] = set()  # vectors that other blocks use
        self._slots: dict[str, str] = {}
        self._free: dict[str, list[str]] = {}
        self._allocas: list[str] = []
        self._out: list[str] = []
        self._run: list[str] = []
        self._copies: list[tuple[str, str]] = []
        self._groups: dict[tuple[str, tuple[str, ...]], _Group] = {}

    def text(self) -> str:
        self._scan()
        for at, line in enumerate(self._lines):
            if at in self._vectors:
                self._vector(at, line, self._vectors[at])
            else:
                if self._copies and " phi " not in line:
                    self._copy_merged()
                if self._run and not _movable(line):
                    self._flush(at)
                self._out.append(self._shared.renamed(line) if "@" in line else line)
        entry = self._out.index("entry:") + 1
        return "\n".join([*self._out[:entry], *self._allocas, *self._out[entry:]])

    def _scan(self) -> None:
        """Types of vectors, and where each is used last."""
        block = 0
        blocks: dict[str, int] = {}
        self._vectors: dict[int, str] = {}
        """Lines with vectors, and the name that each defines."""
        for at, line in enumerate(self._lines):
            if "<" not in line:
                block += line.endswith(":")
                continue
            if at == 0 or " = alloca " in line:
                continue
            defined, equals, rhs = line.partition(" = ")
            names = NAME.findall(line)
            self._vectors[at] = defined = defined.lstrip() if equals else ""
            if defined:
                self._types[defined] = _result(rhs)
                blocks[defined] = block
                if rhs.startswith("phi "):
                    self._wide.update(names)
            for name in names:
                self._last[name] = at
                # A block may come before one that computes what it uses.
                if blocks.get(name) != block:
                    self._wide.add(name)

    def _vector(self, at: int, line: str, defined: str) -> None:
        phi = _PHI.match(line) if " = phi " in line else None
        if phi is not None:
            self._merge(phi[1], phi[2], phi[3])
            return
        if self._copies:
            self._copy_merged()
        calls = "call " in line and "@llvm." not in line
        if calls and "> <" not in line:  # numbers in a constant vector stay
            line = _NUMBER.sub(lambda m: f"{m[1]} {_LITERAL}{m[2].replace('-', '_')}", line)
        self._run.append(line)
        if (
            not defined  # it stores, or calls a function for its effects
            or calls
            or "volatile" in line
            or "<" not in self._types[defined]
            or len(self._run) == _LONGEST
        ):
            self._flush(at)

    def _merge(self, name: str, kind: str, incoming: str) -> None:
        """Replace a phi of vectors by a phi of their slots and a copy: a loop writes them again."""
        pairs = _INCOMING.findall(incoming)
        merged = {x for x, _ in self._copies} | {name}
        if any(value in merged or not value.startswith("%") for value, _ in pairs):
            raise CannotOutline(incoming)
        slots = ", ".join(f"[ {self._slot(value)}, {block} ]" for value, block in pairs)
        self._out.append(f"  {name}.slot = phi ptr {slots}")
        self._copies.append((name, kind))

    def _copy_merged(self) -> None:
        for name, kind in self._copies:
            kind = stored(kind)
            text = (
                f"define void @(ptr %a, ptr %b) #0 {{\n  %v = load {kind}, ptr %a\n"
                f"  store {kind} %v, ptr %b\n  ret void\n}}"
            )
            copy = self._shared.add(text)
            self._out.append(f"  call void {copy}(ptr {name}.slot, ptr {self._slot(name)})")
        self._copies.clear()

    def _slot(self, name: str) -> str:
        if name not in self._slots:
            kind = stored(self._types[name])
            free = self._free.get(kind)
            if free and name not in self._wide:
                self._slots[name] = free.pop()
            else:
                self._slots[name] = slot = f"%slot.{len(self._allocas)}"
                self._allocas.append(f"  {slot} = alloca {kind}, align 64")
        return self._slots[name]

    def _flush(self, at: int) -> None:
        """Replace the collected instructions by a call."""
        run, self._run = self._run, []
        names: dict[str, str] = {}
        text = NAME.sub(lambda m: names.setdefault(m[0], f"%v{len(names)}"), "\n".join(run))
        defined = [line[2 : line.index(" ", 2)] for line in run if line.startswith("  %")]
        vectors = [x for x in defined if "<" in self._types[x]]
        outputs = [x for x in vectors if self._last[x] > at or x in self._wide]
        key = text, tuple(names[x] for x in outputs)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = self._group(text, names, defined, outputs)
        order = list(names)
        arguments = [
            f"{kind} {_written(order[i])}" if kind else f"ptr {self._slot(order[i])}"
            for i, kind in group.inputs
        ]
        arguments += [f"ptr {self._slot(order[i])}" for i in group.outputs]
        result = "" if group.result == "void" else f"{defined[-1]} = "
        self._out.append(f"  {result}call {group.result} {group.name}({', '.join(arguments)})")
        for name in order:
            if name in self._slots and self._last[name] <= at and name not in self._wide:
                self._free.setdefault(stored(self._types[name]), []).append(self._slots.pop(name))

    def _group(
        self, text: str, names: dict[str, str], defined: list[str], outputs: list[str]
    ) -> _Group:
        """The function for these instructions, in which names are numbered."""
        scalars = {name: kind for kind, name in _SCALAR.findall(text)}
        order = list(names)
        parameters, before, after = [], [], []
        inputs: list[tuple[int, str]] = []
        for i, name in enumerate(order):
            short = names[name]
            if name in defined:
                continue
            kind = scalars.get(short, "")
            inputs.append((i, kind))
            if kind:
                parameters.append(f"{kind} {short}")
            else:
                parameters.append(f"ptr {short}.p")
                before.append(load(self._types[name], short))
        for name in outputs:
            parameters.append(f"ptr {names[name]}.p")
            after.append(store(self._types[name], names[name]))
        result, leave = "void", "  ret void"
        if defined and "<" not in self._types[defined[-1]]:
            result = self._types[defined[-1]]
            leave = f"  ret {result} {names[defined[-1]]}"
        head = f"define {result} @({', '.join(parameters)}) #0 {{"
        body = self._shared.renamed(text)
        name = self._shared.add("\n".join([head, *before, body, *after, leave, "}"]))
        places = tuple(order.index(x) for x in outputs)
        return _Group(name, tuple(inputs), places, result)


def _movable(line: str) -> bool:
    """Return whether a scalar instruction can move above vector ones that write nothing."""
    _, equals, rhs = line.partition(" = ")
    words = rhs.split(" ", 2)
    return bool(equals) and words[0] in _PURE and words[1] not in ("volatile", "atomic")


def _written(name: str) -> str:
    """The text of a name, or of a number that is passed like one, in a call."""
    return name.removeprefix(_LITERAL).replace("_", "-") if name.startswith(_LITERAL) else name
