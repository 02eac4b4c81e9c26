"""Advice on the launch configuration: occupancy, tail effect, work per thread."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from weft.measure.profile import floor
from weft.measure.profile.advice.rule import Rule, RuleContext
from weft.measure.profile.cliffs import cliffs, fit
from weft.measure.profile.latency import L2_CLOCKS
from weft.measure.profile.sections import waves
from weft.measure.profile.work import reads_parameter
from weft.values.analysis import Advice

_LOW_OCCUPANCY = 0.5
"""Occupancy below which latencies may not be hidden."""
_TAIL = 0.8
_OVERHEAD = 0.6
_SHARED = 0.75
"""Fraction of a thread's prologue that is saved with four elements per thread."""
_SHORT = 64
"""Instructions per thread below which coarsening may help."""


def occupancy(f: RuleContext) -> Iterator[Advice]:
    """Too few warps to hide memory latency, and the resource that limits them."""
    o = fit(f.p.launch, f.gpu)
    steps = cliffs(f.p.launch, f.gpu)
    if o.fraction >= _LOW_OCCUPANCY or not steps or f.p.launch.blocks <= o.blocks * f.gpu.sms:
        return
    loads = sum(a.requests for a in floor.accesses(f.p, "global") if a.kind in ("load", "atomic"))
    clocks = loads * L2_CLOCKS / f.gpu.sms / o.warps
    busy = floor.seconds(f.units)
    waiting = clocks / (f.gpu.boost_mhz * 1e6) / max(busy, 1e-12)
    best = max(steps, key=lambda c: c.warps)
    yield Advice(
        "occupancy",
        f"an SM holds {o.blocks} blocks, {o.warps} of {o.max_warps} warps, limited by "
        f"{' and '.join(o.limiter)}; {loads:,} loads wait for memory",
        f"{best}: {best.warps} warps",
        min(best.warps / o.warps, waiting),
    )


def tail(f: RuleContext) -> Iterator[Advice]:
    """Idle SMs in the only wave or in the last one."""
    count, blocks = waves(f.p, f.gpu), f.p.launch.blocks
    # A single partial wave leaves whole SMs idle.
    if blocks < f.gpu.sms:
        small = f.p.launch.threads < f.gpu.warp_size
        yield Advice(
            "tail effect",
            f"{blocks} block{'s' if blocks > 1 else ''} for {f.gpu.sms} SMs: "
            f"{f.gpu.sms - blocks} have nothing to do",
            "use blocks of 128 threads or more, and as many as the GPU has SMs: give each thread "
            "fewer elements"
            if small
            else "use more and smaller blocks, or split the work of a block (split-K, partial "
            "sums)",
            _spread(f),
        )
    elif count > 1 and count / math.ceil(count) < _TAIL:
        yield Advice(
            "tail effect",
            f"{count:.2f} waves: in the last one {100 * (count % 1):.0f} % of the GPU works",
            "choose a block size or a tile that fills whole waves, or a grid of as many blocks as "
            "the GPU holds that take their work in a loop",
            math.ceil(count) / count,
        )


def _spread(f: RuleContext) -> float:
    """The speed-up if all SMs shared the work; no launch is faster than one access to memory."""
    part = f.p.launch.blocks / f.gpu.sms
    trip = floor.DRAM_CLOCKS / (f.gpu.boost_mhz * 1e6) * f.p.launches
    after = max(
        max(u.seconds * part, min(u.seconds, trip))
        if u.name == floor.LATENCY
        else u.seconds * u.part
        for u in f.of_launch
    )
    return floor.seconds(f.of_launch) / after


def coarsening(f: RuleContext) -> Iterator[Advice]:
    """Many short threads that mostly compute indices."""
    executed = f.p.totals["sim:ptx__inst_executed.sum"]
    warps = f.p.launches * f.p.launch.blocks * -(-f.p.launch.threads // 32)
    if not executed or executed / warps > _SHORT or waves(f.p, f.gpu) < 4:
        return
    useful = sum(
        i.executions
        for i in f.p.instructions
        if i.work[0] in ("fp16", "fp32", "fp64", "special", "memory")
        and not reads_parameter(i.opcode)
    )
    if useful > (1 - _OVERHEAD) * executed:
        return
    yield Advice(
        "thread coarsening",
        f"a thread executes {executed / warps:.0f} instructions, of which "
        f"{100 * (1 - useful / executed):.0f} % compute indices and control flow",
        "let each thread do several elements in a loop (grid-stride), so that its start is shared",
        f.gain(
            instructions=_SHARED * (executed - useful), integer=_SHARED * f.unit("integer").work
        ),
    )


RULES: Mapping[str, Rule] = {
    "occupancy": occupancy,
    "tail effect": tail,
    "thread coarsening": coarsening,
}
