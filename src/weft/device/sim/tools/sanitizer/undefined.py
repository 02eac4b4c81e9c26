"""Undefined values: reads of unwritten local memory, and shuffles from lanes that take no part.

Reading one is not an error by itself: compilers read ahead and discard. For each register that such
a value may reach, a set of lanes records where it is undefined. Copies and arithmetic pass it on,
`selp` only from the side that it picks. A finding is an undefined value that decides a branch, is
an address, or is stored; it names the read and the use.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.device.sim.analyse.program import KernelProgram
from weft.device.sim.emit.warp_ops import source_lanes
from weft.device.sim.layout import SlotFields
from weft.device.sim.tools.sanitizer.checking import Checking
from weft.device.sim.tools.sanitizer.layout import FindingKind
from weft.device.sim.tools.sanitizer.meetings import synchronisation
from weft.device.sim.tools.sanitizer.order.words import put, word
from weft.device.sim.tools.sanitizer.report import report
from weft.ir import Builder, Val
from weft.ptx.cfg import registers
from weft.ptx.isa import decode
from weft.ptx.isa.columns import ResultForm
from weft.ptx.model import Instruction, Mem

_P = ("ptr", 0)
_PASSED = (ResultForm.SHUFFLED, ResultForm.COPY, ResultForm.ADDRESS)
"""Warp rows whose result is computed from their operands."""
_PLACES = 64
"""Instructions whose undefined values are distinguished; later ones share the last place."""


@dataclass
class UndefinedPlan:
    """The sources of undefined values in a kernel, and the registers that they may reach."""

    sources: dict[int, int] = field(default_factory=dict)
    """Instruction -> its place."""
    reached: dict[str, int] = field(default_factory=dict)
    """Register -> the places, as bits, that its value may come from."""

    @property
    def nbytes(self) -> int:
        """For each warp: a record and an address of each place, then a set for each register."""
        return 16 * _PLACES + 8 * len(self.reached) if self.sources else 0


def plan(program: KernelProgram) -> UndefinedPlan:
    """Follow the values of all sources through the kernel."""
    code = [(block.index, i) for block in program.graph.blocks for i in block.code]
    out = UndefinedPlan()
    for block, ins in code:
        if _is_source(program, block, ins):
            out.sources[ins.index] = min(len(out.sources), _PLACES - 1)
    changed = bool(out.sources)
    while changed:
        changed = False
        for _, ins in code:
            bits = 1 << out.sources[ins.index] if ins.index in out.sources else 0
            if _passes(program, ins):
                for name in program.uses(ins):
                    bits |= out.reached.get(name, 0)
            for name in program.defs(ins) if bits else ():
                changed |= bits & ~out.reached.get(name, 0) != 0
                out.reached[name] = out.reached.get(name, 0) | bits
    return out


def _is_source(program: KernelProgram, block: int, ins: Instruction) -> bool:
    d = decode(ins)
    if d.row.form is ResultForm.SHUFFLED:
        everyone = synchronisation.mask_of(program, ins) is None and program.full_warps
        return not everyone or program.partial[block] or ins.guard is not None
    return d.row.is_load and d.space == "local"


def _passes(program: KernelProgram, ins: Instruction) -> bool:
    """Return whether its result is computed from its operands, lane by lane or by a shuffle."""
    decoded = program.decoded.get(ins.index)
    return decoded is not None and (not decoded.row.warp or decoded.row.form in _PASSED)


class Undefined:
    """The code that follows undefined values in one kernel."""

    def __init__(self, w: Checking, plan: UndefinedPlan) -> None:
        self.w, self.plan = w, plan
        self.index = {name: i for i, name in enumerate(plan.reached)}

    def started(self, b: Builder, slot: Val) -> None:
        """Start a block: all values are defined."""
        size = self.w.e.program.warps * self.plan.nbytes

        def body(x: Builder, args: list[Val]) -> None:
            p = x.load("ptr", 0, x.at(args[0], SlotFields.OBSERVER))
            with x.loop(size // 8) as i:
                at = x.at(p, (i.zext("i64") << 3) + self.w.layout.undefined)
                put(x, x.integer("i64", 0), at)

        if size:
            b.helper("sanitizer_all_defined", [_P], None, body)(slot)

    # ---- sets of lanes ----------------------------------------------------------------------
    def _place(self, offset: int) -> Val:
        b, e = self.w.e.b, self.w.e
        start = e.warp.zext("i64") * self.plan.nbytes + (self.w.layout.undefined + offset)
        return b.at(self.w.p, start)

    def _at(self, name: str) -> Val:
        return self._place(16 * _PLACES + 8 * self.index[name])

    def of(self, names: list[str]) -> Val:
        """Lanes in which any of these registers is undefined."""
        b = self.w.e.b
        lanes = b.integer("i32", 0)
        for name in names:
            if name in self.index:
                lanes = lanes | b.load("i32", 0, self._at(name), 8)
        return lanes

    def put(self, ins: Instruction, bad: Val, lanes: Val) -> None:
        """Mark the results of an instruction as undefined in `bad` of the lanes that execute it."""
        b = self.w.e.b
        for name in self.w.e.program.defs(ins):
            if name in self.index:
                at = self._at(name)
                b.store((b.load("i32", 0, at, 8) & ~lanes) | (bad & lanes), at, 8)

    def made(self, bad: Val, lanes: Val, record: Val, address: Val) -> None:
        """Record the undefined values that the current instruction gives to these lanes."""
        b, ins = self.w.e.b, self.w.e.ins
        with b.when(bad.ne(0), rare=True):
            at = self._place(16 * self.plan.sources[ins.index])
            put(b, record, at)
            put(b, address, at, 8)
        self.put(ins, bad, lanes)

    # ---- instructions -----------------------------------------------------------------------
    def instruction(self, ins: Instruction) -> None:
        """Check before each instruction the values that it uses, and propagate undefined ones."""
        if not self.plan.sources:
            return
        e, program = self.w.e, self.w.e.program
        uses = [n for n in program.uses(ins) if n in self.index]
        if ins.guard is not None and ins.guard in self.index:
            self._used([ins.guard], e.mask())
        if decode(ins).row.form is ResultForm.SHUFFLED:
            self._shuffle(ins)
        elif _passes(program, ins) and ins.guard not in self.index:
            if uses or any(n in self.index for n in program.defs(ins)):
                self.put(ins, self._passed(ins), e.executing())
        elif uses:
            self._used([n for n in uses if n not in self._copied(ins)], e.executing())
        if not _passes(program, ins) and ins.index not in self.plan.sources:
            self.put(ins, e.b.integer("i32", 0), e.executing())

    def _copied(self, ins: Instruction) -> set[str]:
        """Registers that are stored to local memory, which is undefined then as well."""
        d = decode(ins)
        if not d.row.is_store or d.space != "local":
            return set()
        return {n for o in ins.operands if not isinstance(o, Mem) for n in registers(o)}

    def stored(self, ins: Instruction) -> Val:
        """Lanes whose stored value is undefined."""
        return self.of(sorted(self._copied(ins)))

    def _passed(self, ins: Instruction) -> Val:
        """Lanes in which a result is undefined."""
        e, d, operands = self.w.e, decode(ins), ins.operands
        if d.row.form is ResultForm.SELECTION and d.types["c"] == "pred":
            yes, no, chosen = (registers(o) for o in operands[1:4])
            picked = e.bits_of(e.read(operands[3], "pred"))
            return (self.of(yes) & picked) | (self.of(no) & ~picked) | self.of(chosen)
        lanes = self.of(self.w.e.program.uses(ins))
        combines = d.row.form in (ResultForm.AND, ResultForm.OR)
        kind, sides = d.type if combines else "pred", operands[1:] if combines else ()
        if d.row.form is ResultForm.COMPARISON and len(operands) > 3:
            sides = operands[3:]
        for side in sides:  # a defined side may decide alone: no bits of an AND, all of an OR
            either = d.row.form is ResultForm.OR or d.operation == "or"
            if kind == "pred":
                value = e.bits_of(e.read(side, kind))
                decides = value if either else ~value
            else:
                decides = e.bits_of(e.read_lanes(side, kind).eq(-1 if either else 0))
            lanes = lanes & ~(decides & ~self.of(registers(side)))
        return lanes

    def _shuffle(self, ins: Instruction) -> None:
        """Propagate a shuffle: a lane that reads an inactive lane gets an undefined value."""
        w, e, b = self.w, self.w.e, self.w.e.b
        _, value, index, clamp, *masks = ins.operands
        lanes = e.executing()
        mode = decode(ins).mode
        source = source_lanes(b, mode, e.read_lanes(index, "b32"), e.read_lanes(clamp, "b32"))
        inside, lane = source.ult(32), source & 31
        passed = (b.splat(self.of(registers(value)), 32) >> lane) & 1
        bad = e.bits_of(passed.ne(0))
        if ins.index not in self.plan.sources:
            self.put(ins, bad, lanes)
            return
        there = e.read_lanes(masks[0], "b32") & lanes if masks else b.splat(lanes, 32)
        outside = e.bits_of(inside & ((there >> lane) & 1).eq(0)) & lanes
        self.made(outside, lanes, w.me(outside), outside.zext("i64"))
        self.put(ins, bad | outside, lanes)

    def _used(self, names: list[str], lanes: Val) -> None:
        """Report undefined values that matter, with their source."""
        if not names:
            return
        w, b = self.w, self.w.e.b
        bad = self.of(names) & lanes
        places = 0
        for name in names:
            places |= self.plan.reached[name]
        shuffles = {
            self.plan.sources[i.index]
            for block in w.e.program.graph.blocks
            for i in block.code
            if i.index in self.plan.sources and decode(i).row.form is ResultForm.SHUFFLED
        }
        with b.when(bad.ne(0), rare=True):
            for place in range(_PLACES):
                if not places >> place & 1:
                    continue
                at = self._place(16 * place)
                kind = (
                    FindingKind.UNDEFINED_LANE if place in shuffles else FindingKind.UNINITIALISED
                )
                with b.when(word(b, at).ne(0)):
                    report(b, w.p, kind, word(b, at), w.me(bad), word(b, at, 8))
        w.e.forget_mask()
