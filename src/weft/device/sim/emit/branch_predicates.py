"""Predicates that decide a branch: settled by scalars where all lanes agree.

`i < n` compares an affine value with a uniform one. When its smallest and its largest lane give
the same answer, every lane does. A warp at the edge of neighbouring values (`threadIdx.x < 16`)
computes the number of lanes for which it holds; no vector is needed for that either.
Such predicates are not written to their register at all when nothing but branches reads them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from functools import partial

from weft.device.sim.analyse.form import AFFINE, UNIFORM
from weft.device.sim.analyse.idle_warps import MIRRORED
from weft.device.sim.analyse.program import KernelProgram
from weft.device.sim.protocols import Executing
from weft.ir import Builder, Val
from weft.ptx.isa import decode
from weft.ptx.isa.columns import ResultForm
from weft.ptx.model import Imm, Instruction, Not, Operand, Reg, Special
from weft.records import dataclass

_ORDER = {
    "lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "lo": "lt", "ls": "le", "hi": "gt", "hs": "ge",
    "eq": "eq", "ne": "ne",
}  # fmt: skip

_COMBINED = 64
"""The most predicates that one may take part in: each adds a call to evaluate its lanes."""
_COMBINATIONS = (ResultForm.AND, ResultForm.OR, ResultForm.NOT)
"""Rows that combine predicates."""


@dataclass(slots=True)
class LanePredicate:
    """A predicate of all lanes: whether they agree (`agreed`), their common `value`, and otherwise
    the predicate of each lane (`lanes`), or as bits of one word.
    """

    agreed: Val
    value: Val
    lanes: Callable[[], Val]
    bits: Callable[[], Val]


class Predicates:
    """The predicates of the block under emission."""

    def __init__(self, e: Executing) -> None:
        self.e = e
        self.deferred: dict[str, LanePredicate] = {}
        self.settled: Collection[str] = ()
        """Predicates without a register: each block recomputes the comparison (`recompute`)."""
        self.defs: Counter[str] = Counter()
        self.readers: dict[str, list[Instruction]] = {}
        for block in e.program.graph.blocks:
            for ins in [*block.code, *([block.last] if block.last else [])]:
                self.defs.update(e.program.defs(ins))
                for name in e.program.uses(ins):
                    self.readers.setdefault(name, []).append(ins)

    def defer(self, ins: Instruction) -> bool:
        """Defer a predicate's definition to the branch; False when it cannot be deferred."""
        form = decode(ins).row.form
        if form is not ResultForm.COMPARISON and form not in _COMBINATIONS:
            return False
        if any(name in self.settled for name in self.e.program.defs(ins)):
            self.settle(ins)
            return True
        if ins.guard is not None or not self._only_branches(ins):
            return False
        predicate = self._compare(ins) if form is ResultForm.COMPARISON else self._combine(ins)
        if predicate is None:
            return False
        dest = ins.operands[0]
        assert isinstance(dest, Reg)
        self.deferred[dest.name] = predicate
        return True

    def settle(self, ins: Instruction) -> None:
        """Skip a comparison of values that do not change: no register holds its result."""
        dest = ins.operands[0]
        assert isinstance(dest, Reg)
        self.deferred[dest.name] = self.ends(ins)

    def _only_branches(self, ins: Instruction) -> bool:
        """Return whether its result is defined once, and read only up to this block's branch.

        A read before the definition uses the previous iteration's value, which needs a register.
        """
        block = self.e.block
        position = {id(x): i for i, x in enumerate(block.code)}
        pending, seen = [ins], 0
        while pending:
            definition = pending.pop()
            seen += 1
            dest = definition.operands[0]
            if not isinstance(dest, Reg) or self.defs[dest.name] != 1 or seen > _COMBINED:
                return False
            readers = self.readers.get(dest.name, ())
            inner = [x for x in readers if x is not block.last]
            after = position[id(definition)]
            if not readers or not all(position.get(id(x), -1) > after for x in inner):
                return False
            if not all(x.guard is None and _combines(x) for x in inner):
                return False
            pending += inner
        return block.index in self.e.program.divergent

    # ---- comparisons ------------------------------------------------------------------------
    def _compare(self, ins: Instruction) -> LanePredicate | None:
        if not settles(self.e.program, ins) or self._changes(ins):
            return None
        return self.ends(ins)

    def _changes(self, ins: Instruction) -> bool:
        """Return whether an operand is overwritten before the branch, where lanes are compared."""
        code = self.e.block.code
        at = next(i for i, x in enumerate(code) if x is ins)
        reads = set(self.e.program.uses(ins))
        return any(not reads.isdisjoint(self.e.program.defs(x)) for x in code[at + 1 :])

    def ends(self, ins: Instruction) -> LanePredicate:
        """Compare the lowest and the highest lane; they decide for all unless the sum wraps."""
        e, x = self.e, self.e.b
        a, b = ins.operands[1], ins.operands[2]
        left, right = e.base(a, "b32"), e.base(b, "b32")
        form = e.program.form_of(a)
        assert form is not None
        moving = a
        if form.kind != AFFINE:
            moving, form = b, e.program.form_of(b)
            assert form is not None
        d = decode(ins)
        order, sign = _ORDER[d.comparison], "s" if d.type == "s32" else "u"
        low, high = min(form.off), max(form.off)
        base = left if moving is a else right
        first, last = (base + n if n else base for n in (low, high))
        steady = x.icmp(f"{sign}le", first, last)
        other = right if moving is a else left

        def bits() -> Val:
            lanes, step = partial(self._bits_of_lanes, ins), _step(form.off)
            if not step or (step > 1 and order in ("eq", "ne")):
                return lanes()
            relation = order if moving is a else MIRRORED[order]
            run = partial(_run, x, first, other, relation, sign, step)
            return x.either(steady, run, lanes, likely=True)

        if order in ("eq", "ne"):  # all lanes differ from what lies beyond their ends
            beyond = x.icmp(f"{sign}lt", other, first) | x.icmp(f"{sign}lt", last, other)
            differ = x.integer("i1", int(order == "ne"))
            return LanePredicate(steady & beyond, differ, lambda: self._lanes(ins), bits)

        def test(lane: Val) -> Val:
            p, q = (lane, right) if moving is a else (left, lane)
            return x.icmp(sign + order, p, q)

        one, two = test(first), test(last)
        return LanePredicate(steady & (one ^ two ^ 1), one, lambda: self._lanes(ins), bits)

    def _lanes(self, ins: Instruction) -> Val:
        """The comparison of every lane."""
        e = self.e
        d = e.program.decoded[ins.index]
        kind = d.type
        out = d.row.function(
            e.b, e.read(ins.operands[1], kind), e.read(ins.operands[2], kind), **d.words
        )
        first: Val = out[0] if isinstance(out, tuple) else out
        return first

    def _bits_of_lanes(self, ins: Instruction) -> Val:
        return self.e.bits_of(self._lanes(ins))

    # ---- combinations -----------------------------------------------------------------------
    def _combine(self, ins: Instruction) -> LanePredicate | None:
        """Combine deferred predicates: a source without a register defers the result, too."""
        if not _combines(ins):
            return None
        if not any(name in self.deferred for name in self.e.program.uses(ins)):
            return None
        sources = [self._source(o) for o in ins.operands[1:]]
        form = decode(ins).row.form
        if form is ResultForm.NOT:
            return _negate(sources[0])
        a, b = sources
        settles = 0 if form is ResultForm.AND else 1  # one side alone decides

        def alone(q: LanePredicate) -> Val:
            return q.agreed & (q.value ^ 1 if settles == 0 else q.value)

        sure = (a.agreed & b.agreed) | alone(a) | alone(b)
        if settles == 0:
            value = a.value & b.value & a.agreed & b.agreed
            return LanePredicate(
                sure, value, lambda: self._both(a, b, "and"), lambda: a.bits() & b.bits()
            )
        value = alone(a) | alone(b)
        return LanePredicate(
            sure, value, lambda: self._both(a, b, "or"), lambda: a.bits() | b.bits()
        )

    def _both(self, a: LanePredicate, b: LanePredicate, op: str) -> Val:
        return self.e.b.binary(op, self.e.b.splat(a.lanes(), 32), self.e.b.splat(b.lanes(), 32))

    def _source(self, operand: Operand) -> LanePredicate:
        """A deferred predicate, a uniform one, or lanes about which nothing is known."""
        if isinstance(operand, Not):
            return _negate(self._source(operand.of))
        if isinstance(operand, Reg) and operand.name in self.deferred:
            return self.deferred[operand.name]
        form = self.e.program.form_of(operand)
        uniform = form is not None and form.kind == UNIFORM and isinstance(operand, Reg)
        lanes = self.e.read(operand, "pred")
        flag = self.e.b.integer("i1", int(uniform))
        return LanePredicate(
            flag, lanes if uniform else flag, lambda: lanes, lambda: self.e.bits_of(lanes)
        )


def settles(program: KernelProgram, ins: Instruction) -> bool:
    """Return whether it compares an affine value of 32 bits with a uniform one."""
    d = decode(ins)
    if d.row.form is not ResultForm.COMPARISON or d.operation:
        return False
    if d.comparison not in _ORDER or d.type not in ("s32", "u32", "b32"):
        return False
    sources = ins.operands[1:]
    forms = [program.form_of(x) for x in sources]
    kinds = {f.kind for f in forms if f is not None}
    return kinds == {AFFINE, UNIFORM} and all(isinstance(x, Reg | Imm | Special) for x in sources)


def _combines(ins: Instruction) -> bool:
    """Return whether it is an operation on predicates that `_combine` supports."""
    d = decode(ins)
    return d.type == "pred" and d.row.form in _COMBINATIONS


def _negate(q: LanePredicate) -> LanePredicate:
    return LanePredicate(q.agreed, q.value ^ 1, lambda: q.lanes() ^ 1, lambda: ~q.bits())


def _step(off: tuple[int, ...]) -> int:
    """The distance of neighbouring lanes, if it is the same for all and a power of two; else 0."""
    step = off[1] - off[0]
    even = step > 0 and step & (step - 1) == 0 and off == tuple(range(off[0], off[31] + 1, step))
    return step if even else 0


def _run(b: Builder, first: Val, bound: Val, order: str, sign: str, step: int) -> Val:
    """The lanes i, as bits, for which first + i * step compares with `bound`; no sum wraps."""
    wide = [b.resize(v, "i64", signed=sign == "s") for v in (bound, first)]
    ahead = wide[0] - wide[1]
    one = b.integer("i64", 1)
    if order in ("eq", "ne"):
        bits = b.select(ahead.ult(32), one << (ahead & 31), b.integer("i64", 0))
    else:
        # Below the bound are the first `ahead` lanes; with the bound, one more. Steps that reach
        # beyond it count as whole ones.
        count = ahead + (int(order in ("le", "gt")) + step - 1)
        count = count.ashr(step.bit_length() - 1) if step > 1 else count
        bits = (one << b.smin(b.smax(count, 0), 32)) - 1
    bits = bits.trunc("i32")
    return ~bits if order in ("ne", "gt", "ge") else bits
