"""Models the least time of a launch: how long each unit of the GPU is busy.

A launch takes at least as long as its busiest unit, the `bound`. An SM without a block does not
work, so that the units of SMs are slower in a small grid. Latency counts as a unit: a warp takes a
time for its own instructions in which all other units may be idle. Launch overhead comes on top, so
measured times are longer. Rates come from `device/model_table.py`; rates that no data sheet
lists were measured on an H200 and scale with SMs and clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.device.models import GpuModel
from weft.measure.profile import latency
from weft.measure.profile.work import expands
from weft.measure.profile.work import operations as operations_of
from weft.values.profile import BULK, Access, Profile

L2_BYTES = 32
"""Bytes from L2 per SM and clock: 8.3 TB/s on an H200."""
SHARED_BYTES = 128
"""Bytes of a wavefront; an SM processes one per clock."""
ATOMICS = 1.65
"""Atomic operations of lanes at different addresses, per SM and clock."""
SAME_ADDRESS = 1.37e9
"""Atomic operations per second at one address."""
DRAM_CLOCKS = 660
LATENCY = "latency"
"""The name of the unit that stands for the time of a warp."""

_TENSOR_NAMES = {"e4m3": "f8", "e5m2": "f8", "u8": "s8", "u4": "s4", "f32": "tf32", "b1": "s4"}
READS = ("load", "copy", "fragment load", "bulk load")


@dataclass(frozen=True)
class GpuUnit:
    """A unit of the GPU: its busy time in seconds, and its `work` in units of `measure`.

    part  the part of the whole GPU's rate that the launch can use; `per_second` is that rate
    """

    name: str
    seconds: float
    work: float
    per_second: float
    measure: str
    part: float = 1.0


def units(p: Profile, gpu: GpuModel) -> tuple[GpuUnit, ...]:
    """All units with work, the busiest first; latency is among them."""
    with_work = working(p, gpu)
    if with_work:
        waits = latency.seconds(p, gpu)
        rate = gpu.boost_mhz * 1e6
        with_work.append(GpuUnit(LATENCY, waits, waits * rate, rate, "clocks"))
    return tuple(sorted(with_work, key=lambda u: -u.seconds))


def working(p: Profile, gpu: GpuModel) -> list[GpuUnit]:
    """The units with work, without latency."""
    used = busy_sms(p, gpu) / gpu.sms
    clocks = gpu.sms * gpu.boost_mhz * 1e6
    chip, sms = _memory(p, gpu, clocks)
    candidates = [*chip, *(_slower(u, used) for u in (*sms, *_compute(p, gpu, clocks)))]
    return [u for u in candidates if u.work]


def busy_sms(p: Profile, gpu: GpuModel) -> int:
    """The SMs that have a block."""
    return max(1, min(p.launch.blocks, gpu.sms))


def throughput(units: Sequence[GpuUnit]) -> tuple[GpuUnit, ...]:
    """The units without latency."""
    return tuple(u for u in units if u.name != LATENCY)


def of_whole_gpu(units: Sequence[GpuUnit]) -> tuple[GpuUnit, ...]:
    """The same units as if the work were spread over all SMs."""
    return tuple(sorted((_slower(u, 1 / u.part) for u in units), key=lambda u: -u.seconds))


def _slower(u: GpuUnit, part: float) -> GpuUnit:
    return GpuUnit(u.name, u.seconds / part, u.work, u.per_second * part, u.measure, u.part * part)


def bound(units: Sequence[GpuUnit]) -> GpuUnit:
    """The busiest unit; an empty launch is bound by its instructions."""
    return units[0] if units else GpuUnit("instructions", 0.0, 0, 1, "instructions")


def seconds(units: Sequence[GpuUnit], less: Mapping[str, float] | None = None) -> float:
    """The least time; `less` maps a unit to the fraction of its work that remains."""
    left = less or {}
    return max((u.seconds * left.get(u.name, 1.0) for u in units), default=0.0)


def gain(units: Sequence[GpuUnit], less: Mapping[str, float]) -> float:
    """The speed-up of the least time."""
    after = seconds(units, less)
    return seconds(units) / after if after else 1.0


# ---- memory ------------------------------------------------------------------------------------
def accesses(p: Profile, space: str) -> list[Access]:
    """All accesses to one state space."""
    return [a for i in p.instructions for a in i.accesses if a.space == space]


def dram_bytes(p: Profile) -> float:
    of = p.totals
    return of["sim:dram__bytes_read.sum"] + of["sim:dram__bytes_write.sum"]


def l2_bytes(p: Profile) -> float:
    """Bytes between L1 and L2, in both directions."""
    return 32.0 * sum(l2_sectors(a) for a in accesses(p, "global") + accesses(p, "local"))


def l2_sectors(a: Access) -> int:
    """Sectors that reach L2: read misses of L1, and all writes."""
    return a.sectors_missed if a.kind in READS else a.sectors


def lsu_steps(a: Access) -> float:
    """Clocks of the SM's load/store unit for an access."""
    if a.space == "shared":
        return a.wavefronts
    if a.kind in BULK:
        return 0.0  # done by the copy engine, not by the load/store unit
    return max(a.tag_wavefronts, a.requests, a.bytes / SHARED_BYTES)


def compulsory_bytes(p: Profile) -> int:
    """Compulsory traffic: each byte read once and written once."""
    return sum(a.read + a.written for a in p.arrays)


def _memory(p: Profile, gpu: GpuModel, clocks: float) -> tuple[list[GpuUnit], list[GpuUnit]]:
    """The units of the whole GPU, and those that every SM has."""
    far, near = accesses(p, "global"), accesses(p, "shared")
    others = [*accesses(p, "local"), *accesses(p, "cluster")]
    steps = sum(lsu_steps(a) for a in [*far, *near, *others])
    chip = [_unit("DRAM", dram_bytes(p), gpu.memory_gb_per_s * 1e9, "bytes")]
    atomic = sum(a.threads for a in far if a.kind in ("atomic", "reduction"))
    if atomic:
        rate = atomic / _atomic_seconds(p, atomic, clocks)
        chip.append(_unit("atomics", atomic, rate, "operations"))
    return chip, [
        _unit("L2", l2_bytes(p), L2_BYTES * clocks, "bytes"),
        _unit("L1 and shared memory", steps, clocks, "wavefronts"),
    ]


def _unit(name: str, work: float, per_second: float, measure: str) -> GpuUnit:
    return GpuUnit(name, work / per_second, work, per_second, measure)


def _atomic_seconds(p: Profile, atomic: int, clocks: float) -> float:
    """Time of atomics. Each word is limited by the rate of one address."""
    words = max(1, sum(min(a.read, a.written) // 4 for a in p.arrays))
    return max(atomic / (ATOMICS * clocks), atomic / words / SAME_ADDRESS)


# ---- arithmetic --------------------------------------------------------------------------------
def ceilings(gpu: GpuModel) -> dict[str, float]:
    """Unit of `weft.measure.profile.work` -> operations per second; an FMA counts as two."""
    clocks = gpu.sms * gpu.boost_mhz * 1e6
    plain = {
        "fp32": 2 * gpu.cores_per_sm * clocks,
        "fp16": 2 * gpu.fp16_per_sm * clocks,
        "fp64": 2 * gpu.fp64_per_sm * clocks,
        "integer": 2 * gpu.integer_per_sm * clocks,
        "special": gpu.special_per_sm * clocks,
    }
    return plain | {f"tensor.{kind}": 1e12 * rate for kind, rate in gpu.tensor.items()}


def work(p: Profile) -> dict[str, float]:
    """Operations by unit; tensor types use the names of the GPU model's rates."""
    out: dict[str, float] = {}
    for name, value in p.totals.items():
        if name.startswith("sim:ptx__ops_") and value:
            unit = name.removeprefix("sim:ptx__ops_").removesuffix(".sum")
            unit = named(unit)
            out[unit] = out.get(unit, 0) + value
    return out


def named(unit: str) -> str:
    """The name of a unit's rate; tensor types use those of the GPU model."""
    kind, _, inputs = unit.partition(".")
    return f"{kind}.{_TENSOR_NAMES.get(inputs, inputs)}" if inputs else unit


def issued(p: Profile) -> float:
    """Warp instructions after expansion by the assembler."""
    times = latency.needed(p)
    return sum(times[i.index] * expands(i.opcode) for i in p.instructions)


def _compute(p: Profile, gpu: GpuModel, clocks: float) -> list[GpuUnit]:
    """Busy times of the arithmetic pipes, in warp instructions.

    An addition takes as long as an FMA, and inactive lanes take as long as active ones.
    """
    peak, busy, times_of = ceilings(gpu), dict[str, float](), latency.needed(p)
    for ins in p.instructions:
        unit, operations = ins.work
        # Peaks count an FMA as two operations; an ADD takes the same issue slot.
        fused = operations_of(ins.opcode)
        times = expands(ins.opcode) if unit != "special" else 1
        slots = operations * (1 if unit == "special" else 2 / fused) * times
        unit = named(unit)
        if unit in peak:
            busy[unit] = busy.get(unit, 0.0) + slots * 32 * times_of[ins.index]
    out = [_unit(unit, n, peak[unit], "operations") for unit, n in busy.items()]
    rate = gpu.schedulers_per_sm * clocks
    count = issued(p)
    return [*out, _unit("instructions", count, rate, "instructions")]
