"""Computes how occupancy depends on registers, shared memory and block size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from weft.device.models import GpuModel
from weft.device.occupancy import Occupancy, occupancy
from weft.values.analysis import Curve
from weft.values.profile import LaunchShape

SHARED_STEP = 128


@dataclass(frozen=True)
class Cliff:
    """The smallest change of one resource that increases the resident warps of an SM."""

    resource: str
    fewer: int
    to: int
    blocks: int
    warps: int

    def __str__(self) -> str:
        what = {"registers": "registers a thread", "shared memory": "bytes of shared memory"}
        if self.resource == "block size":
            return f"blocks of {self.to} threads would give {self.blocks} blocks"
        one = what[self.resource].replace("registers", "register") if self.fewer == 1 else ""
        return f"{self.fewer:,} {one or what[self.resource]} fewer would give {self.blocks} blocks"


def fit(shape: LaunchShape, gpu: GpuModel) -> Occupancy:
    """The occupancy of a launch on a GPU model."""
    return occupancy(
        gpu,
        threads=shape.threads,
        registers=shape.registers,
        shared_bytes=shape.static_shared + shape.dynamic_shared,
    )


def cliffs(shape: LaunchShape, gpu: GpuModel) -> tuple[Cliff, ...]:
    """The next step up for each resource that limits occupancy, if there is one."""
    now = fit(shape, gpu)
    # Full occupancy: no change can help.
    if now.warps >= now.max_warps:
        return ()
    out = [
        _first(resource, have, range((have - 1) // step * step, -1, -step), at, now)
        for resource, have, step, at in _resources(shape, gpu)
        if resource in now.limiter
    ]
    # No single resource helps: suggest another block size, the nearest first.
    if not any(out):
        sizes = range(32, gpu.max_threads_per_block + 1, 32)
        near = sorted(sizes, key=lambda n: (abs(n - shape.threads), n))
        out.append(_first("block size", shape.threads, near, _resized(shape, gpu), now))
    return tuple(cliff for cliff in out if cliff is not None)


def curves(shape: LaunchShape, gpu: GpuModel) -> tuple[Curve, ...]:
    """Resident warps against registers, shared memory and block size."""
    most = gpu.shared_per_block
    spans: dict[str, Sequence[int]] = {
        "registers": range(16, 256, 2),
        "shared memory": range(0, most + 1, 1024),
    }
    out = [
        Curve(resource, have, tuple((n, (o := at(n)).blocks, o.warps) for n in spans[resource]))
        for resource, have, _, at in _resources(shape, gpu)
    ]
    sizes, resized = range(32, gpu.max_threads_per_block + 1, 32), _resized(shape, gpu)
    points = tuple((n, (o := resized(n)).blocks, o.warps) for n in sizes)
    return (*out, Curve("block size", shape.threads, points))


_At = Callable[[int], Occupancy]


def _resources(shape: LaunchShape, gpu: GpuModel) -> list[tuple[str, int, int, _At]]:
    """(resource, current value, step, function from a value to the occupancy)."""
    shared = shape.static_shared + shape.dynamic_shared

    def with_shared(n: int) -> Occupancy:
        return fit(replace(shape, static_shared=n, dynamic_shared=0), gpu)

    def with_registers(n: int) -> Occupancy:
        return fit(replace(shape, registers=n), gpu)

    out: list[tuple[str, int, int, _At]] = [("shared memory", shared, SHARED_STEP, with_shared)]
    if shape.registers:
        out.insert(0, ("registers", shape.registers, 1, with_registers))
    return out


def _resized(shape: LaunchShape, gpu: GpuModel) -> _At:
    """Occupancy for another block size; registers and shared memory are unchanged."""
    return lambda n: fit(replace(shape, block=(n, 1, 1)), gpu)


def _first(
    resource: str, have: int, values: Sequence[int], at: _At, now: Occupancy
) -> Cliff | None:
    for value in values:
        there = at(value)
        if there.warps > now.warps:
            return Cliff(resource, have - value, value, there.blocks, there.warps)
    return None
