"""Upper bounds on the lanes that run a block: `if (threadIdx.x < 8)` leaves eight of a warp."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from weft.device.sim.analyse.idle_warps import MIRRORED, Values, is_thread
from weft.device.sim.analyse.program import KernelProgram
from weft.ptx.model import Instruction

_TESTS: dict[str, Callable[[int, int], bool]] = {
    "lt": operator.lt, "lo": operator.lt, "le": operator.le, "ls": operator.le,
    "gt": operator.gt, "hi": operator.gt, "ge": operator.ge, "hs": operator.ge,
    "eq": operator.eq, "ne": operator.ne,
}  # fmt: skip


def find(
    program: KernelProgram, values: Values, comparisons: Mapping[str, Instruction]
) -> dict[int, int]:
    """Blocks that only lanes below some number run -> that number."""
    out: dict[int, int] = {}
    for source, hammock in program.hammocks.by_source.items():
        block = program.graph.blocks[source]
        assert block.last is not None and block.last.guard is not None
        ins = comparisons.get(block.last.guard)
        test = _test(program, ins, values) if ins is not None else None
        if test is None:
            continue
        for path in hammock.paths:
            holds = (path.entry == block.successors[0]) != block.last.guard_negated
            lanes = [t % 32 for t in range(program.threads) if test(t) == holds]
            count = max(lanes, default=0) + 1
            for x in path.members if count < 32 else ():
                out[x] = min(count, out.get(x, 32))
    return out


def _test(program: KernelProgram, ins: Instruction, values: Values) -> Callable[[int], bool] | None:
    """A comparison of threadIdx.x with a constant, as a function of the thread."""
    a, b = ins.operands[1:3]
    order = program.decoded[ins.index].comparison
    if not is_thread(program, a, values):
        a, b, order = b, a, MIRRORED.get(order, "")
    form = program.form_of(b)
    if not is_thread(program, a, values) or form is None or form.const is None:
        return None
    bound, compare = form.const, _TESTS.get(order)
    # A negative bound of unsigned numbers is a large one: no test of small numbers.
    return (lambda t: compare(t, bound)) if compare is not None and 0 <= bound < 1 << 31 else None
