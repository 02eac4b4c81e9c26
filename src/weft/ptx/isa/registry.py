"""The instruction table: one row per instruction, in the manual's own notation.

    @instruction("mad.mode.type  d, a, b, c", manual="integer-arithmetic-instructions-mad",
                 mode="lo hi", type="u16 u32 u64 s16 s32 s64",
                 vectors=["mad.lo.s32  2 3 4 -> 10"])
    def mad(e, a, b, c, *, mode, type): return a * b + c

Left of the blank is the opcode: a part is a literal, or the name of a modifier whose allowed
words follow as an argument; `{.x}` may be left out (then it is "").  Words may stand in any order
as long as each fits a part of its own; where two parts allow the same word (the two types of
`cvt`), the first free part takes it.

Right of the blank are the operands. `d`, `p` and `q` are destinations. An operand has the type
of the modifier called `type` unless it names its own: `b:u32`, `d:dtype`, `d:type*2` (twice as
wide). `p|q` is a pair of destinations, `{, c}` may be left out (then None). `cc` is the carry
flag, which the text of an instruction does not show: as a source (`d, a, b, cc`) it is read (i1),
as the second of a pair (`d|cc, a, b`) it is written.

A row's function gets one `Val` per source, scalar or 32 lanes wide alike, and returns what its
destinations become: one value, or a tuple. Operand types arrive as: integers and b-types `iN`,
f32 `float`, f64 `double`, f16 `half`, bf16 and the packed types as the integer of their width,
pred `i1`. Rows that need more than lanes (memory, control flow, other lanes) are `warp=True`:
their function gets the warp emitter and the instruction as written.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from weft.ptx.isa.columns import (
    GENERIC,
    Accepts,
    Async,
    AsyncStep,
    Completion,
    Control,
    Does,
    Effect,
    InstructionWork,
    Nan,
    Ordering,
    Participants,
    Per,
    ResultForm,
    Waits,
    WorkUnit,
)
from weft.ptx.model import SIZES, Instruction
from weft.records import dataclass

RowFunction = Callable[..., Any]
_TABLE: dict[str, list[InstructionRow]] = {}
MANUAL = "https://docs.nvidia.com/cuda/parallel-thread-execution/#"


@dataclass(frozen=True)
class OperandSpec:
    """One operand as the row declares it.

    type    a type, or the modifier that names it; "" where the row's function knows
    pair    the second destination of `d|p`
    memory  an address in brackets
    """

    name: str
    type: str
    double: bool = False
    optional: bool = False
    pair: str = ""
    memory: bool = False

    @property
    def is_dest(self) -> bool:
        return self.name in ("d", "p")


@dataclass(frozen=True)
class InstructionRow:
    """Everything about one instruction."""

    syntax: str
    base: str
    parts: tuple[tuple[str, bool], ...]
    modifiers: Mapping[str, frozenset[str]]
    operands: tuple[OperandSpec, ...]
    function: RowFunction
    manual: str
    vectors: tuple[str, ...] = ()
    warp: bool = False
    notes: str = ""
    has_dest: bool = True
    form: ResultForm = ResultForm.OTHER
    nans: Nan = Nan.CANONICAL
    work: InstructionWork = field(default_factory=InstructionWork)
    effects: tuple[Effect, ...] = ()
    participants: Participants = Participants.LANE
    waits: Waits = Waits.NOTHING
    async_: Async | None = None
    control: Control = Control.NEXT
    ordering: Ordering = Ordering.WEAK
    aligned: bool = False
    accepts: Accepts = Accepts.NOTHING
    literals: Mapping[str, Sequence[int]] = field(default_factory=dict)
    accumulates: bool = False
    peers: bool = False

    def match(self, parts: Sequence[str]) -> dict[str, str] | None:
        """The modifiers' words when the opcode is of this row, else None."""
        free = list(self.parts)
        words = {name: "" for name in self.modifiers}
        for word in parts[1:]:
            for i, (name, _) in enumerate(free):
                if word in self.modifiers[name] if name in self.modifiers else word == name:
                    if name in self.modifiers:
                        words[name] = word
                    del free[i]
                    break
            else:
                return None
        return words if all(optional for _, optional in free) else None

    @property
    def is_load(self) -> bool:
        """Each lane loads registers from an address of its own."""
        return self.form is ResultForm.LOADED

    @functools.cached_property
    def is_store(self) -> bool:
        """Each lane stores registers to an address of its own."""
        return self.async_ is None and any(
            x.does is Does.WRITE and x.per is Per.LANE and not x.barrier for x in self.effects
        )

    @functools.cached_property
    def is_atomic(self) -> bool:
        """Each lane changes data at an address of its own in one step."""
        return self.async_ is None and any(
            x.does is Does.UPDATE and not x.barrier for x in self.effects
        )

    @functools.cached_property
    def completes_by(self) -> Completion | None:
        """The event that completes its accesses; None: they are complete when it is."""
        issues = self.async_ is not None and self.async_.step is AsyncStep.ISSUE
        return self.async_.by if self.async_ is not None and issues else None

    @functools.cached_property
    def polls(self) -> bool:
        """True if a loop around the instruction may be waiting for another thread."""
        return self.waits.polls

    @functools.cached_property
    def writes(self) -> bool:
        """True if it changes memory, at once or when it completes."""
        return any(x.writes for x in self.effects)

    @functools.cached_property
    def written(self) -> tuple[OperandSpec, ...]:
        """The operands that the text of an instruction has, in its order."""
        return tuple(x for x in self.operands if x.name != "cc")

    def position(self, name: str) -> int:
        """The position of an operand in the text of an instruction."""
        return self._positions[name]

    @functools.cached_property
    def _positions(self) -> dict[str, int]:
        return {x.name: i for i, x in reversed(list(enumerate(self.written)))}

    def operand_type(self, spec: OperandSpec, words: Mapping[str, str]) -> str:
        """The PTX type of an operand of this row under the given modifiers."""
        kind = words.get(spec.type, spec.type)
        if not spec.double:
            return kind
        return f"{kind[0]}{2 * int(kind[1:])}"


_DIMENSIONS = ("1d", "2d", "3d", "4d", "5d")
_STATE_SPACES = ("global", "shared", "local", "param", "const")


@dataclass(frozen=True)
class Decoded:
    """An opcode resolved to its row; the properties name what its words say.

    words   the word of each modifier of the row; "" for one that is left out
    types   the type of each operand
    parts   all words of the opcode
    """

    row: InstructionRow
    words: Mapping[str, str]
    types: Mapping[str, str]
    parts: tuple[str, ...]

    @property
    def type(self) -> str:
        """The last word, which is the type of most opcodes."""
        return self.parts[-1]

    @functools.cached_property
    def space(self) -> str:
        """The state space: `global`, `shared`, `local`, `param`, `const`, or `generic`."""
        named = {word.partition("::")[0] for word in self.parts[1:]}
        return next((space for space in _STATE_SPACES if space in named), GENERIC)

    @functools.cached_property
    def elements(self) -> int:
        """The number of elements of a vector access: 2 for `.v2`, 1 without such a word."""
        return next((int(p[1:]) for p in self.parts if p in ("v2", "v4", "v8")), 1)

    @functools.cached_property
    def vector_length(self) -> int:
        """The length of a vector operand: 2 for `.v2`, 4 for `.x4`, 0 without such a word."""
        words = ("v2", "v4", "v8", "x1", "x2", "x4")
        return next((int(p[1:]) for p in self.parts if p in words), 0)

    @functools.cached_property
    def lane_bytes(self) -> int:
        """Bytes that one lane accesses; 1 if no word is a type."""
        return self.elements * next((SIZES[p] for p in reversed(self.parts) if p in SIZES), 1)

    @property
    def operation(self) -> str:
        """The operation of an atomic, an mbarrier, or a comparison with a third operand."""
        return self.words.get("op", "")

    @property
    def comparison(self) -> str:
        """The comparison of `setp` and `set`: `lt`, `ne`, ..."""
        return self.words.get("cmp", "")

    @property
    def mode(self) -> str:
        """The mode of a shuffle: `up`, `down`, `bfly` or `idx`."""
        return self.words.get("mode", "")

    @property
    def order(self) -> str:
        """The memory order: `relaxed`, `acquire`, `volatile`, ..."""
        return self.words.get("order", "")

    @property
    def scope(self) -> str:
        """The scope of an ordered access or a fence: `cta`, `gpu`, ...; `level` of a membar."""
        return self.words.get("scope", "") or self.words.get("level", "")

    @property
    def rounding(self) -> str:
        """The rounding mode of an arithmetic instruction."""
        return self.words.get("rnd", "")

    @property
    def ftz(self) -> bool:
        """True if denormals are flushed to zero."""
        return bool(self.words.get("ftz"))

    @property
    def sat(self) -> bool:
        """True if the result is clamped."""
        return bool(self.words.get("sat"))

    @property
    def wide(self) -> bool:
        """True for a product twice as wide as its factors."""
        return self.row.form in (ResultForm.WIDE_PRODUCT, ResultForm.WIDE_PRODUCT_SUM)

    @property
    def cache_operator(self) -> str:
        """The cache operator: `ca`, `cg`, `cv`, ..."""
        return self.words.get("cop", "")

    @property
    def has_cache_hint(self) -> bool:
        """True if the last operand is a cache policy."""
        return self.words.get("l2") == "L2::cache_hint"

    @functools.cached_property
    def is_read_only(self) -> bool:
        """True for a load through the read-only cache: `.nc`."""
        return "nc" in self.parts

    @functools.cached_property
    def is_bulk(self) -> bool:
        """True for bulk copies, and for what commits and awaits them."""
        return "bulk" in self.parts

    @functools.cached_property
    def is_tensor(self) -> bool:
        """True for copies whose addresses are those of a tensor map."""
        return "tensor" in self.parts

    @functools.cached_property
    def dimensions(self) -> int:
        """The rank that a tensor copy names: 3 for `.3d`; 0 without such a word."""
        return next((int(p[0]) for p in self.parts if p in _DIMENSIONS), 0)

    @functools.cached_property
    def by_columns(self) -> bool:
        """True for a tensor copy in one of the im2col modes."""
        return any(p.startswith("im2col") for p in self.parts)

    @functools.cached_property
    def names_peers(self) -> bool:
        """True if it meets other blocks of the cluster, or names them."""
        of_cluster = self.row.participants is Participants.CLUSTER
        return of_cluster or self.row.peers or bool(self.words.get("multicast"))

    @functools.cached_property
    def from_generic(self) -> bool:
        """True for `cvta.to`, which converts generic addresses to those of a space."""
        return "to" in self.parts

    @functools.cached_property
    def kinds(self) -> frozenset[str]:
        """The types of all operands."""
        return frozenset(self.types.values())

    @functools.cached_property
    def source_types(self) -> tuple[str, ...]:
        """The types of the sources that the text of an instruction has, in its order."""
        return tuple(self.types[x.name] for x in self.row.written if not x.is_dest)


def instruction(
    syntax: str,
    *,
    manual: str,
    vectors: Sequence[str] = (),
    warp: bool = False,
    notes: str = "",
    form: ResultForm = ResultForm.OTHER,
    nans: Nan = Nan.CANONICAL,
    work: InstructionWork | WorkUnit | None = None,
    effects: Sequence[Effect] = (),
    participants: Participants | None = None,
    waits: Waits | None = None,
    async_: Async | None = None,
    control: Control = Control.NEXT,
    ordering: Ordering = Ordering.WEAK,
    aligned: bool = False,
    accepts: Accepts = Accepts.NOTHING,
    literals: Mapping[str, Sequence[int]] | None = None,
    accumulates: bool = False,
    peers: bool = False,
    **modifiers: str,
) -> Callable[[RowFunction], RowFunction]:
    """Add a row to the table; see the head of this file for the notation.

    form          the relation of its result to its operands
    nans          the possible NaNs of its f32 result
    work          its class in profiles; a memory access by default if it has effects
    effects       its accesses to memory, in the order of its operands
    participants  the threads that take part; by default those of an operand `membermask`
    waits         the condition it waits for; a mask, a warp or a warpgroup meets first
    async_        its part in an asynchronous operation, and the event that completes that
    control       the place where execution continues after it
    ordering      the order of its accesses relative to those of other threads
    aligned       all lanes of a warp must execute it together
    accepts       operands that it takes beside registers and literals of its type
    literals      operands that must be literals, and the numbers they may be
    accumulates   its destination is a source too
    peers         it makes or takes apart addresses of other blocks of the cluster

    `columns` explains the values.
    """

    def add(fn: RowFunction) -> RowFunction:
        opcode, _, operands = syntax.partition(" ")
        base, parts = _opcode(opcode)
        allowed = {k: _words(v) for k, v in modifiers.items()}
        specs = _operands(operands, "" if warp else "type")
        named = any(x.name == "membermask" for x in specs)
        who = participants or (Participants.MASK if named else Participants.LANE)
        row = InstructionRow(
            syntax, base, parts, allowed, specs, fn, MANUAL + manual, tuple(vectors), warp, notes,
            _has_dest(operands), form, nans, _work(work, effects, control), tuple(effects), who,
            waits or _waits(who), async_, control, ordering, aligned, accepts, literals or {},
            accumulates,
            peers,
        )  # fmt: skip
        _TABLE.setdefault(base, []).append(row)
        # An opcode that was looked up before must find the row that is added now.
        _find.cache_clear()
        return fn

    return add


def _waits(who: Participants) -> Waits:
    """Participants that act together meet first; barriers of blocks state their own."""
    alone = who in (Participants.LANE, Participants.BLOCK, Participants.CLUSTER)
    return Waits.NOTHING if alone else Waits.PARTICIPANTS


def _work(
    work: InstructionWork | WorkUnit | None, effects: Sequence[Effect], control: Control
) -> InstructionWork:
    """The given work; else by its effects: access memory, change control flow, or compute."""
    if isinstance(work, InstructionWork):
        return work
    if work is None and control is not Control.NEXT:
        return InstructionWork(WorkUnit.CONTROL)
    return InstructionWork(work or (WorkUnit.MEMORY if effects else WorkUnit.ARITHMETIC))


# Many rows have the same words and operands: the table is made in every process.
@functools.cache
def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


@functools.cache
def _has_dest(operands: str) -> bool:
    return re.match(r"\s*\{?[dp]\b", operands) is not None


def _opcode(text: str) -> tuple[str, tuple[tuple[str, bool], ...]]:
    pieces = re.findall(r"\{\.([\w:]+)\}|\.([\w:]+)|^(\w+)", text)
    base = next(p[2] for p in pieces if p[2])
    return base, tuple((o or m, bool(o)) for o, m, b in pieces if not b)


_OPERAND = re.compile(r"(\{,)?\s*(\[?)([\w|:*]+)")


@functools.cache
def _operands(text: str, default: str) -> tuple[OperandSpec, ...]:
    out = []
    for optional, bracket, item in _OPERAND.findall(text):
        name, _, kind = item.partition(":")
        first, _, second = name.partition("|")
        double = kind.endswith("*2")
        ty = kind.removesuffix("*2") or ("" if bracket else default)
        out.append(OperandSpec(first, ty, double, bool(optional), second, bool(bracket)))
    return tuple(out)


def lookup(opcode_parts: Sequence[str]) -> Decoded | None:
    """The row of an opcode, or None."""
    return _find(tuple(opcode_parts))


@functools.cache
def _find(parts: tuple[str, ...]) -> Decoded | None:
    for row in _TABLE.get(parts[0], ()):
        words = row.match(parts)
        if words is not None:
            types = {s.name: row.operand_type(s, words) for s in row.operands}
            return Decoded(row, words, types, parts)
    return None


def decode(ins: Instruction) -> Decoded:
    """The row of an instruction that is known to have one."""
    decoded: Decoded | None = ins.decoded
    if decoded is None:
        decoded = ins.decoded = lookup(ins.parts)
        if decoded is None:
            raise LookupError(f"no row for {ins.opcode}")
    return decoded


def control_of(parts: Sequence[str]) -> Control:
    """The place where execution continues after an opcode, which may be one without a row."""
    decoded = lookup(parts)
    # An opcode without a row is refused later, by the validation, which names its line.
    return Control.NEXT if decoded is None else decoded.row.control


def bases(holds: Callable[[InstructionRow], bool]) -> frozenset[str]:
    """The base opcodes with a row for which this holds."""
    return frozenset(row.base for row in rows() if holds(row))


def rows(base: str | None = None) -> list[InstructionRow]:
    """All rows, or those of one base opcode."""
    if base is not None:
        return list(_TABLE.get(base, ()))
    return [row for group in _TABLE.values() for row in group]


LLVM_TYPES = {
    "pred": "i1", "f32": "float", "f64": "double", "f16": "half", "bf16": "i16",
    "f16x2": "i32", "bf16x2": "i32", "tf32": "i32", "b128": "i128",
}  # fmt: skip


def llvm_type(ptx_type: str) -> str:
    """The IR element type a row sees for a PTX type."""
    return LLVM_TYPES.get(ptx_type) or f"i{8 * SIZES[ptx_type]}"
