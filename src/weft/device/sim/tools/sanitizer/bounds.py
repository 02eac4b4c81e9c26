"""Accesses that leave their own array: from one shared variable into the next, or from the array of
one argument into that of another.

The array of an access is the one that its address was computed from. Where it may be one of
several, or comes from memory, nothing is checked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from weft.device.sim.address import SPACES, Address
from weft.device.sim.analyse.program import KernelProgram
from weft.device.sim.lane_sets import each_lane
from weft.device.sim.layout import SlotFields, Space
from weft.device.sim.tools.sanitizer.checking import Checking
from weft.device.sim.tools.sanitizer.layout import FindingKind, Record
from weft.device.sim.tools.sanitizer.order.words import word
from weft.device.sim.tools.sanitizer.report import report
from weft.ir import Builder, Val
from weft.ptx.isa import decode
from weft.ptx.isa.columns import ResultForm
from weft.ptx.model import Instruction, Mem, Operand, Reg, Sym

_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)
Origins = frozenset[str | int] | None
"""The values that a value may have been computed from; None: unknown."""
NOTHING: Origins = frozenset()
_SUMS = (
    ResultForm.SUM,
    ResultForm.OR,
    ResultForm.COPY,
    ResultForm.ADDRESS,
    ResultForm.CONVERSION,
    ResultForm.SELECTION,
    ResultForm.MINIMUM,
    ResultForm.MAXIMUM,
)
"""Operations through which an address stays an address into the same array."""
_NUMBERS = (
    ResultForm.PRODUCT,
    ResultForm.WIDE_PRODUCT,
    ResultForm.LEFT_SHIFT,
    ResultForm.RIGHT_SHIFT,
    ResultForm.QUOTIENT,
    ResultForm.REMAINDER,
)
"""Operations whose result is not an address."""


@dataclass(frozen=True)
class SharedVariable:
    """A variable in shared memory: its offset in the block's memory, and its bytes."""

    name: str
    start: int
    size: int


class Bounded(Checking, Protocol):
    """A watcher that knows the variables of a kernel's accesses."""

    variables: dict[int, SharedVariable]


def shared(program: KernelProgram) -> dict[int, SharedVariable]:
    """Access to shared memory -> the one variable that it is meant for."""
    declared = {**program.module.variables, **program.function.variables}
    variables = {
        name: SharedVariable(name, at, declared[name].size)
        for name, (space, at) in program.symbols.items()
        if space == "shared" and name in declared
    }
    sized = {name for name in variables if not declared[name].unsized}
    if len(variables) < 2:  # nothing to run into
        return {}

    def seed(o: Operand) -> Origins:
        return frozenset({o.name}) if isinstance(o, Sym) and o.name in variables else NOTHING

    out: dict[int, SharedVariable] = {}
    for ins, origins in _accesses(program, Space.SHARED, seed):
        if origins is not None and len(origins) == 1 and origins <= sized:
            (name,) = origins
            out[ins.index] = variables[str(name)]
    return out


def arguments(program: KernelProgram) -> dict[int, list[int]]:
    """Access to global memory -> the offsets of the parameters that its address comes from."""

    def seed(o: Operand) -> Origins:
        if isinstance(o, Sym) and program.symbols.get(o.name, ("",))[0] == "param":
            return frozenset({program.symbols[o.name][1] + o.offset})
        return None if isinstance(o, Sym) else NOTHING

    return {
        ins.index: sorted(int(x) for x in origins)
        for ins, origins in _accesses(program, Space.GLOBAL, seed)
        if origins
    }


def _accesses(
    program: KernelProgram, space: int, seed: Callable[[Operand], Origins]
) -> list[tuple[Instruction, Origins]]:
    """The accesses to a state space, and the origins of their addresses."""
    code = [i for block in program.graph.blocks for i in block.code]
    held: dict[str, Origins] = {}

    def of(o: Operand) -> Origins:
        return held.get(o.name, NOTHING) if isinstance(o, Reg) else seed(o)

    changed = True
    while changed:
        changed = False
        for ins in code:
            new = _result(ins, of, seed)
            for name in program.defs(ins):
                joined = _join(held.get(name, NOTHING), new)
                changed |= joined != held.get(name, NOTHING)
                held[name] = joined
    out = []
    for ins in code:
        mem = next((o for o in ins.operands if isinstance(o, Mem)), None)
        if mem is not None and SPACES[decode(ins).space] == space and _is_access(ins):
            out.append((ins, of(mem.base)))
    return out


def _is_access(ins: Instruction) -> bool:
    """Return whether each lane accesses data at an address of its own."""
    row = decode(ins).row
    return row.is_load or row.is_store or row.is_atomic


_WIDE = ("b64", "u64", "s64")


def _result(
    ins: Instruction, of: Callable[[Operand], Origins], seed: Callable[[Operand], Origins]
) -> Origins:
    sources = [of(o) for o in ins.operands[1:]]
    d = decode(ins)
    form = d.row.form
    if form is ResultForm.LOADED:
        mem, wide = ins.operands[1], d.type in _WIDE
        if d.space == "param" and isinstance(mem, Mem) and isinstance(mem.base, Sym):
            return seed(Sym(mem.base.name, mem.base.offset + mem.offset)) if wide else NOTHING
        return None if wide else NOTHING
    if form in _NUMBERS:
        return NOTHING
    if form in (ResultForm.PRODUCT_SUM, ResultForm.WIDE_PRODUCT_SUM):
        return sources[-1]
    if (
        form is ResultForm.DIFFERENCE
    ):  # a pointer less a number is a pointer, less a pointer a number
        return sources[0] if not sources[1] else NOTHING
    joined = NOTHING
    for source in sources:
        joined = _join(joined, source)
    return joined if form in _SUMS or not joined else None


def _join(a: Origins, b: Origins) -> Origins:
    return None if a is None or b is None else a | b


def check(w: Bounded, a: Address, nbytes: int, lanes: Val) -> None:
    """Check before an access to shared memory that it is inside its own variable."""
    e, b = w.e, w.e.b
    variable = w.variables.get(e.ins.index)
    if variable is None:
        return
    start = b.val("i64", 0, f"ptrtoint {e.shared.typed} to i64") + variable.start
    limit = b.integer("i64", variable.size - nbytes)

    def each() -> None:
        fn = b.helper(
            f"sanitizer_own_{nbytes}", [_P, _I32, _I64, _P, _I32, _I64, _I64], None, _each
        )
        fn(e.slot, e.warp, w.site(), e.memory.addresses(a), lanes, start, limit)

    if a.first is None or a.last is None or a.off is None:
        each()
        return
    outside = (a.first - start).ugt(limit) | (a.last - start).ugt(limit)
    with b.when(outside, rare=True):
        each()


def _each(x: Builder, args: list[Val]) -> None:
    """Check each lane by itself; the access itself finds addresses outside of all shared memory."""
    slot, warp, site, table, lanes, start, limit = args
    p = x.load("ptr", 0, x.at(slot, SlotFields.OBSERVER))
    low, size = word(x, slot, SlotFields.SHARED), word(x, slot, SlotFields.SHARED_BYTES)

    def one(lane: Val) -> None:
        address = word(x, x.at(table, lane.zext("i64") << 3))
        wrong = (address - start).ugt(limit) & (address - low).ult(size)
        with x.when(wrong, rare=True):
            who = (lane.zext("i64") << Record.LANE) | (warp.zext("i64") << Record.WARP)
            report(x, p, FindingKind.OTHER_ARRAY, site | who, x.integer("i64", 0), address)

    each_lane(x, lanes, one)
