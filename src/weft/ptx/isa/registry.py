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

from weft.ptx.isa.columns import (
    Accepts,
    Async,
    Control,
    Effect,
    InstructionWork,
    Nan,
    Ordering,
    Participants,
    ResultForm,
    Waits,
    WorkUnit,
)
from weft.ptx.isa.decoded import Decoded
from weft.ptx.isa.row import InstructionRow, OperandSpec, RowFunction
from weft.ptx.model import SIZES, Instruction

_TABLE: dict[str, list[InstructionRow]] = {}
MANUAL = "https://docs.nvidia.com/cuda/parallel-thread-execution/#"


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
