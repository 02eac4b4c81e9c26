"""Computes the roofline of a launch: its arithmetic intensity and the attainable rate.

Bytes are counted at three levels: DRAM (modelled), L2 (modelled for accesses through L1) and
shared memory (exact). A level limits the rate to intensity x bandwidth. Arithmetic limits it to the
peak of the units that the launch uses.
"""

from __future__ import annotations

from weft.device.models import GpuModel
from weft.measure.profile import floor
from weft.values.analysis import Level, Roofline
from weft.values.profile import Profile

FLOATS = ("fp16", "fp32", "fp64", "special")


def roofline(p: Profile, gpu: GpuModel) -> Roofline:
    """The roofline of a profile on a GPU model, which may differ from the profiled one."""
    work, peaks, units = floor.work(p), floor.ceilings(gpu), floor.units(p, gpu)
    floats = {u: n for u, n in work.items() if u in FLOATS or u.startswith("tensor")}
    mix = floats or {"integer": work.get("integer", 0.0)}
    operations = sum(mix.values())
    # Of all SMs: the roofline is that of the GPU, whatever part of it the launch uses.
    busy = max((u.seconds * u.part for u in units if u.name in mix), default=0.0)
    # With several pipes in use, the peak is that of the mix, not of one pipe.
    peak = operations / busy if busy else peaks["fp32"]
    compulsory = floor.compulsory_bytes(p)
    busiest = floor.bound(units)
    return Roofline(
        kind="floating-point" if floats else "integer",
        operations=operations,
        peak=peak,
        uses=tuple(mix),
        levels=tuple(_levels(p, gpu, operations, peak)),
        ceilings=tuple(
            (u, peaks[u]) for u in dict.fromkeys([*mix, *_reference(gpu)]) if u in peaks
        ),
        bound=busiest.name,
        bound_seconds=busiest.seconds,
        compulsory=compulsory,
        floor=max(busy, min(compulsory, floor.dram_bytes(p)) / (gpu.memory_gb_per_s * 1e9)),
    )


def _levels(p: Profile, gpu: GpuModel, operations: float, peak: float) -> list[Level]:
    clocks = gpu.sms * gpu.boost_mhz * 1e6
    rows = [
        ("DRAM", floor.dram_bytes(p), gpu.memory_gb_per_s * 1e9, True),
        ("L2", floor.l2_bytes(p), floor.L2_BYTES * clocks, True),
        ("shared", sum(a.bytes for a in floor.accesses(p, "shared")), floor.SHARED_BYTES * clocks,
         False),
    ]  # fmt: skip
    return [
        Level(name, moved, rate, operations / moved, min(peak, operations / moved * rate), modelled)
        for name, moved, rate, modelled in rows
        if moved
    ]


def _reference(gpu: GpuModel) -> tuple[str, ...]:
    """Ceilings that are always drawn, for orientation."""
    return ("fp32", *(f"tensor.{kind}" for kind in ("f16",) if kind in gpu.tensor))
