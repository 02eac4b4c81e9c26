"""Profiles one launch on the simulated GPU."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.device import devices, models
from weft.device.base import LaunchConfig
from weft.device.models import GpuModel
from weft.device.occupancy import Occupancy
from weft.device.selection import Selection, select
from weft.device.sim.device import module
from weft.device.sim.run.module import SimModule
from weft.device.sim.run.observation import Observer
from weft.device.time_limit import limited, within
from weft.errors import Error, LaunchError, expect
from weft.kernels import Configured
from weft.measure.profile.cliffs import fit
from weft.measure.profile.on_gpu import on_gpu
from weft.measure.profile.result import Profile
from weft.values.deferred import Deferred
from weft.values.profile import Instruction, LaunchShape, Line

if TYPE_CHECKING:  # imported here to keep plain launches fast
    from weft.device.sim.tools.counters.sampling import Sampling
    from weft.values.stages import BlockStages

LEAST_L1 = 16 * 1024
"""The least L1 capacity in bytes, independent of the shared memory of the blocks."""


def profile(
    subject: Configured,
    *args: Any,
    device: str | Selection | None = None,
    time_limit: float | None = None,
    block: int | None = None,
    executions: int = 0,
    **options: Any,
) -> Profile:
    """Run `k[grid, block]` once with these arguments and return its profile.

    device  the model whose caches and limits apply, e.g. "sim:rtx3070"; the kernel's own by default
    block   the number of the block whose addresses are kept; by default the first and the last
    executions  how many executions of each access are kept, by all warps of one block; by default
                the first by a few warps

    Other keyword arguments go to the kernel: Triton constants, num_warps.

    The launch modifies its arrays. If they are on a real GPU, the launch is timed by events, and
    the same launch is counted on copies on the host.
    Counters are exact, except those in `Profile.modelled`.
    """
    if not isinstance(subject, Configured):
        raise LaunchError(
            "profile takes a kernel with its grid, then the kernel's arguments",
            got=type(subject).__name__,
            next="weft.profile(kernel[grid, block], x, y, n)",
        )
    limit, chosen = limited(time_limit), None if device is None else select(device)
    subject.names(args, options)  # refuses what does not fit
    real = on_gpu(subject, args, options)
    if real is not None:
        args, options = real.args, real.options
    launch, values = within(limit, subject.name, lambda: subject.plain(*args, **options))
    kernel = launch.kernel
    default_model = models.get(real.gpu) if real and real.gpu else kernel.model
    model = chosen.model if chosen else default_model
    kernel.check(launch.config, devices.simulated(model))
    last = math.prod(launch.config.grid) - 1
    expect("block", block, int, type(None), allowed="the number of a block, or None")
    if block is not None and not 0 <= block <= last:
        raise LaunchError("no such block in the grid", got=str(block), allowed=f"0 to {last}")

    def run(observer: Observer) -> None:
        launch.observe(observer, *values, time_limit=limit)

    code = module(kernel.program, kernel.simulator)
    result = profile_launch(code, kernel.entry, launch.config, model, run, block, executions)
    return result if real is None else replace(result, measured=real.seconds, note=real.note)


def profile_launch(
    sim: SimModule,
    entry: str,
    grid: LaunchConfig,
    model: GpuModel,
    run: Callable[[Observer], None],
    block: int | None = None,
    executions: int = 0,
    blocks: Sequence[range] = (),
) -> Profile:
    """Profile `run`, which performs one launch of this shape under the given observer.

    With `blocks`, only these ranges of the grid's blocks run, and counters are theirs.
    """
    # imported here to keep plain launches fast
    from weft.device.sim.tools.counters.sampling import Sampling
    from weft.device.sim.tools.counters.tracing import Tracing
    from weft.measure.profile import aggregate, listing, metrics, traffic

    shape = _shape(sim, entry, grid)
    fits = fit(shape, model)
    held, resident = _l1_lines(shape, model, fits), max(1, fits.blocks) * model.sms
    counting = (
        Tracing(held, resident, block=block or 0, depth=executions)
        if executions
        else Sampling(held, resident, block=block)
    )
    counting.blocks = blocks
    run(counting)
    counts = counting.counts
    assert counts is not None, "a launch that ends has been observed"
    arrays, moved = aggregate.arrays(counts), traffic.estimate(counts, model)
    # What is deferred keeps the counters, and not the lines: they grow with the arrays.
    small = replace(counts, lines=np.empty(0, np.uint64))
    instructions = Deferred(partial(aggregate.instructions, small))
    lines = Deferred(lambda: aggregate.lines(instructions.get()))
    totals = Deferred(lambda: metrics.totals(instructions.get(), moved))
    ptx = sim.ptx
    deferred: dict[str, Any] = {
        "instructions": instructions,
        "lines": lines,
        "totals": totals,
        "modelled": Deferred(lambda: metrics.modelled(totals.get())),
        "samples": Deferred(counting.samples),
        "stages": Deferred(lambda: _stages(counting, shape.blocks, instructions.get(), model)),
        "sources": Deferred(lambda: _sources(ptx.sources, lines.get())),
        "ptx": Deferred(
            lambda: listing.listing(ptx.text, [i.ptx_line for i in instructions.get()])
        ),
    }
    return Profile(launch=shape, gpu=model.key, arrays=arrays, **deferred)


def _stages(
    counting: Sampling, blocks: int, instructions: Sequence[Instruction], model: GpuModel
) -> BlockStages | None:
    """The stages of the watched block, if the kernel has any."""
    if counting.stages is None or counting.counts is None:
        return None
    from weft.measure.profile.stages.life import life  # most kernels have none

    pending = counting.counts.notes["stages"]["pending"]
    return life(counting.stages, pending, blocks, instructions, model)


def _sources(sources: Mapping[str, str], lines: Sequence[Line]) -> dict[str, str]:
    """The source files that the lines are from."""
    return {name: sources[name] for name in sorted({x.file for x in lines}) if name in sources}


def _shape(sim: SimModule, entry: str, grid: LaunchConfig) -> LaunchShape:
    about = sim.kernels.get(entry)
    shape = LaunchShape(
        kernel=about.name if about else entry,
        grid=grid.grid,
        block=grid.block,
        static_shared=sim.entry(entry).static_shared,
        dynamic_shared=grid.shared_bytes,
        registers=None,
    )
    if about is not None:
        with contextlib.suppress(Error):  # no ptxas for PTX without CUDA C++
            r = about.resources()
            shape = replace(
                shape,
                registers=r.registers,
                local_bytes=r.local_bytes,
                spill_stores=r.spill_stores,
                spill_loads=r.spill_loads,
            )
    return shape


def _l1_lines(shape: LaunchShape, model: GpuModel, fits: Occupancy) -> int:
    """L1 cache lines per resident block of an SM."""
    # L1 and shared memory share one SRAM; resident blocks divide what is left.
    resident = min(max(1, fits.blocks), -(-shape.blocks // model.sms))
    shared = resident * (shape.static_shared + shape.dynamic_shared + model.reserved_shared)
    left = max(LEAST_L1, model.l1_per_sm - shared)
    return max(1, left // 128 // resident)
