"""`profile`: one launch on the simulated GPU, counted."""

from __future__ import annotations

import contextlib
from typing import Any

from weft.device import models
from weft.device.models import GpuModel
from weft.device.occupancy import Occupancy, occupancy
from weft.device.sim.count.counting import Counting
from weft.errors import Error, LaunchError
from weft.kernels import Launch
from weft.measure import collect, metrics, traffic
from weft.measure.counted import LaunchShape, Profile

LEAST_L1 = 16 * 1024
"""Bytes of the SM's memory that stay an L1, whatever its blocks take for themselves."""


def profile(
    launch: Launch, *args: Any, gpu: str | None = None, time_limit: float | None = None
) -> Profile:
    """Runs `k[grid, block]` with these arguments once, and says what it did.

    gpu  the model whose caches and limits are meant; the kernel's own by default

    Arrays are changed as by any launch. Counters are exact, but for those in `Profile.modelled`.
    """
    if not isinstance(launch, Launch):
        raise LaunchError(
            "profile takes a kernel with its grid, then the kernel's arguments",
            got=type(launch).__name__,
            next="weft.profile(kernel[grid, block], x, y, n)",
        )
    if 0 in launch.shape.grid:
        raise LaunchError("there is nothing to profile", got=f"a grid of {launch.shape.grid}")
    kernel = launch.kernel
    model = kernel.model if gpu is None else models.get(gpu)
    kernel.check(launch.shape, model)
    shape = _shape(launch)
    fits = fit(shape, model)
    counting = Counting(_l1_lines(shape, model, fits), max(1, fits.blocks) * model.sms)
    launch.observe(counting, *args, time_limit=time_limit)
    counts = counting.counts
    assert counts is not None, "a launch that ends has been observed"
    found = collect.instructions(counts)
    return Profile(
        launch=shape,
        gpu=model.key,
        instructions=found,
        lines=collect.lines(found),
        arrays=collect.arrays(counts),
        totals=metrics.totals(found, traffic.estimate(counts, model)),
        modelled=metrics.MODELLED,
    )


def fit(shape: LaunchShape, model: GpuModel) -> Occupancy:
    """How many blocks of the launch an SM of the model holds."""
    return occupancy(
        model,
        threads=shape.threads,
        registers=shape.registers,
        shared_bytes=shape.static_shared + shape.dynamic_shared,
    )


def _shape(launch: Launch) -> LaunchShape:
    kernel, grid = launch.kernel, launch.shape
    registers = None
    with contextlib.suppress(Error):  # PTX alone cannot be assembled
        registers = kernel.resources.registers
    return LaunchShape(
        kernel=kernel.name,
        grid=grid.grid,
        block=grid.block,
        static_shared=kernel.static_shared,
        dynamic_shared=grid.shared_bytes,
        registers=registers,
    )


def _l1_lines(shape: LaunchShape, model: GpuModel, fits: Occupancy) -> int:
    """Lines of L1 for each of the blocks that share an SM."""
    together = min(max(1, fits.blocks), -(-shape.blocks // model.sms))
    shared = together * (shape.static_shared + shape.dynamic_shared + model.reserved_shared)
    left = max(LEAST_L1, model.l1_per_sm - shared)
    return max(1, left // 128 // together)
