"""A PTX module as data: what `parse` returns and every later stage reads."""

from __future__ import annotations

from dataclasses import field
from typing import Any, TypeAlias

from weft.records import dataclass
from weft.values import SourceLine

SIZES = {
    "pred": 1, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2,
    "b32": 4, "u32": 4, "s32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4, "tf32": 4,
    "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16,
}  # fmt: skip
"""Bytes of one element of each fundamental type."""


@dataclass(frozen=True, slots=True)
class Reg:
    """A declared register; `name` is unique in its function (nested scopes are renamed)."""

    name: str


@dataclass(frozen=True, slots=True)
class Imm:
    """An integer literal."""

    value: int


@dataclass(frozen=True, slots=True)
class FloatImm:
    """A floating literal as bits: 32 (0f...), 64 (0d... and decimal literals)."""

    bits: int
    width: int


@dataclass(frozen=True, slots=True)
class Special:
    """A special register without its '%', e.g. 'tid.x', 'laneid', 'clock64'."""

    name: str


@dataclass(frozen=True, slots=True)
class Sym:
    """A variable, parameter, function or label by name."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Mem:
    """`[base+offset]`."""

    base: Operand
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Vec:
    """`{a, b, ...}`; elements may be Sink."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """`d|p`, two destinations of one instruction."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Not:
    """`!p`."""

    of: Operand


@dataclass(frozen=True, slots=True)
class Sink:
    """`_`, a destination that is not read."""


Operand: TypeAlias = Reg | Imm | FloatImm | Special | Sym | Mem | Vec | Pair | Not | Sink


@dataclass(slots=True)
class Instruction:
    """One instruction; `opcode` is its full dotted name, `parts` the pieces of it.

    `index` counts the instructions of the function, labels left out.
    """

    opcode: str
    parts: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: str | None
    guard_negated: bool
    ptx_line: int
    text: str
    loc: SourceLine | None
    index: int = -1
    decoded: Any = field(default=None, init=False, repr=False, compare=False)
    """The result of `isa.decode`; a copy with another opcode begins without it."""


@dataclass(slots=True)
class CallSite:
    """`call (ret), target, (args), prototype-or-targets;` beside its Instruction."""

    target: Operand
    returns: tuple[str, ...]
    arguments: tuple[str, ...]
    prototype: str | None


@dataclass(slots=True)
class Label:
    """A position that branches name."""

    name: str


@dataclass(slots=True)
class PtxVariable:
    """A variable in a state space; `size` 0 with `unsized` for `extern .shared x[]`.

    `init` is the initial bytes, zeros follow it up to `size`; `relocations` lists
    (byte offset, symbol, addend, generic).
    """

    name: str
    space: str
    type: str
    align: int
    size: int
    unsized: bool = False
    init: bytes = b""
    relocations: tuple[tuple[int, str, int, bool], ...] = ()
    linkage: str = ""
    managed: bool = False


@dataclass(slots=True)
class Param:
    """A `.param` of an entry or function; `offset` inside the parameter block.

    `pointer_space` and `pointer_align` are the properties of a `.ptr`; `count` 0 is `x[]`,
    variadic.
    """

    name: str
    type: str
    align: int
    size: int
    offset: int
    count: int = 1
    is_register: bool = False
    pointer_space: str = ""
    pointer_align: int = 0


@dataclass(slots=True)
class PtxFunction:
    """An `.entry` or `.func` with its body (empty for a declaration).

    `registers` has the type of each register that the body uses; `calls` is by instruction index.
    """

    name: str
    is_entry: bool
    params: list[Param] = field(default_factory=list)
    returns: list[Param] = field(default_factory=list)
    registers: dict[str, str] = field(default_factory=dict)
    variables: dict[str, PtxVariable] = field(default_factory=dict)
    body: list[Instruction | Label] = field(default_factory=list)
    calls: dict[int, CallSite] = field(default_factory=dict)
    branch_targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    call_targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    prototypes: dict[str, tuple[tuple[Param, ...], tuple[Param, ...]]] = field(default_factory=dict)
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)
    param_bytes: int = 0
    is_declaration: bool = False


@dataclass(slots=True, weakref_slot=True)
class PtxModule:
    """A whole PTX file."""

    version: str
    target: str
    address_size: int
    functions: dict[str, PtxFunction] = field(default_factory=dict)
    variables: dict[str, PtxVariable] = field(default_factory=dict)
    files: dict[int, str] = field(default_factory=dict)

    @property
    def entries(self) -> list[str]:
        return [f.name for f in self.functions.values() if f.is_entry]
