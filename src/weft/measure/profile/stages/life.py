"""Models the life of each stage of a block's shared memory: filled, read, released, filled again.

The simulator records the copies, arrivals, waits and reads of one block (`trace`), and a model
gives them clocks (`clocks`). The clocks show what overlaps and what waits for what. They are no
measurement: other blocks of the SM, cache misses and bank conflicts are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from weft.device.models import GpuModel
from weft.device.sim.layout import CLUSTER_SHIFT
from weft.device.sim.tools.counters.stages.layout import Recorded
from weft.measure.profile import floor
from weft.measure.profile.stages.clocks import QUARTERS, Clocks, Use, copy_rate
from weft.measure.profile.stages.trace import Trace, resolve
from weft.values.profile import Instruction
from weft.values.stages import BlockStages, Span, Stage, StageUse


def life(
    recorded: Recorded,
    pending: Mapping[str, int],
    blocks: int,
    instructions: Sequence[Instruction],
    gpu: GpuModel,
) -> BlockStages | None:
    """The stages of the block that was watched; None if no copy has reported to an mbarrier.

    blocks   of the launch: the more run at once, the less L2 has for each
    pending  instruction that waits for groups of products -> the number that need not be complete
    """
    trace, rank = resolve(recorded.events()), recorded.rank
    products = {i.index: _product_clocks(i, gpu) for i in instructions}
    rate = copy_rate(blocks, gpu.sms)
    model = Clocks(trace, {int(i): n for i, n in pending.items()}, products, rate)
    model.run()
    stages = _stages(model, trace, rank)
    if not stages:
        return None
    ends = [clock for (r, _), clock in model.now.items() if r == rank]
    return BlockStages(
        block=recorded.block,
        clocks=round(max(ends)),
        stages=stages,
        tensor=_merged((a, b) for r, a, b in model.tensor if r == rank),
        copies=_merged((a, b) for r, a, b in model.copies if r == rank),
        whole=recorded.whole,
    )


def _product_clocks(i: Instruction, gpu: GpuModel) -> float:
    """Clocks of a product on the tensor cores, or to read its operands in shared memory."""
    reads = sum(a.bytes for a in i.accesses if a.kind == "product load")
    if not reads:
        return 0.0
    unit, operations = i.work
    rate = floor.ceilings(gpu)[floor.named(unit)] / (gpu.sms * gpu.boost_mhz * 1e6)
    threads = QUARTERS * gpu.warp_size
    return max(operations * threads / rate, QUARTERS * reads / i.executions / floor.SHARED_BYTES)


def _stages(model: Clocks, trace: Trace, rank: int) -> tuple[Stage, ...]:
    """The stages of one block, by the offset of their memory."""
    phases = sorted(p for p in model.uses if p[0] >> CLUSTER_SHIFT == rank)
    out = []
    for barrier in dict.fromkeys(b for b, _ in phases):
        first = min(start for start, _ in trace.places[barrier])
        uses = [_use(model.uses[p], model.ends[p]) for p in phases if p[0] == barrier]
        out.append(Stage(_offset(first), _offset(barrier), tuple(uses)))
    return tuple(sorted(out, key=lambda stage: (stage.offset, stage.barrier)))


def _use(use: Use, filled: float) -> StageUse:
    opened, consumed, released = (
        None if x is None else round(x) for x in (use.opened, use.consumed, use.released)
    )
    return StageUse(
        issued=round(use.issued), copy=use.copy, filled=round(filled), nbytes=use.nbytes,
        opened=opened, wait=use.wait, consumed=consumed, read=use.read,
        released=released, release=use.release,
    )  # fmt: skip


def _offset(address: int) -> int:
    """The offset in the shared memory of its block."""
    return address & ((1 << CLUSTER_SHIFT) - 1)


def _merged(spans: Iterable[tuple[float, float]]) -> tuple[Span, ...]:
    """The spans as whole clocks, in order; those that touch are one."""
    out: list[Span] = []
    for start, end in sorted((round(a), round(b)) for a, b in spans):
        if out and start <= out[-1][1]:
            out[-1] = out[-1][0], max(out[-1][1], end)
        else:
            out.append((start, end))
    return tuple(out)
