"""Computes what a launch asks of each unit of a GPU, from the counters of all or some blocks.

    Demand
      units     seconds that each unit needs at the rates of the table, if it alone were in use
      latency   seconds of the warps without competition, over all waves
      wave      seconds of one clock per wave: what a clock more per block costs
      code      seconds of one clock per instruction of the code that runs, once a launch
      chain     where they wait
      early     the launch starts before the one before it has ended

The counters of some blocks are scaled to the grid. Distinct bytes of an array are scaled as well,
up to its size. A block that reads a byte again finds it in L2, unless the resident blocks read more
than L2 keeps in between.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from weft.device.models import GpuModel
from weft.measure.profile import floor
from weft.measure.profile.cliffs import fit
from weft.measure.profile.latency import issues, needed, slots_of
from weft.measure.profile.prediction.assembled import assembled
from weft.measure.profile.prediction.chain import Chain, chain
from weft.measure.profile.prediction.contention import partial_seconds, slice_seconds
from weft.measure.profile.prediction.phases import ALONE_BYTES, Memory
from weft.measure.profile.traffic import MEASURED_L2, SURVIVES
from weft.measure.profile.work import is_removed, is_warpgroup_product, meets_next_launch
from weft.values.profile import BULK, Access, Array, Instruction, Profile

FEW_WAVES = 8
"""Up to so many waves, the last one counts as a whole one."""
CHIP = ("DRAM", "atomics")
"""Units of the whole GPU; every SM has the others."""
TAGS = "L1 tags"
"""The unit that looks up lines of 128 bytes: one step per SM and clock."""
FEW_LINES = 8
"""Lines of a request up to which four are looked up in a step; of twice as many, one."""
PARTIAL = "L2 partial writes"
"""The part of L2 that merges a few bytes into a sector, as atomic operations do."""
OTHERS = "other instructions"
"""Instruction slots of what the assembler changes; a report adds them to the others."""
COPIES = " (copies)"
"""Marks the part of L2 that the copy engine moves: SMs that ask for the same line share it."""
MMA = " (mma)"
"""Marks tensor work of warps; a warpgroup's has no mark."""


@dataclass(frozen=True)
class SampledLaunch:
    """Some blocks of a launch.

    profile  counters of these blocks
    blocks   their number
    first    the profile of one block or cluster, with `first_blocks` of them
    drawn    the profile of a block that has drawn the work of all from a counter
    """

    profile: Profile
    blocks: int
    first: Profile
    first_blocks: int
    drawn: Profile | None = None


@dataclass(frozen=True)
class Demand:
    """The demand of one launch; the module docstring describes the fields."""

    units: Mapping[str, float]
    latency: float
    wave: float
    chain: Chain
    early: bool = False
    code: float = 0.0


def demand(p: Profile, gpu: GpuModel, kept: float = 0.0) -> Demand:
    """The demand of one launch whose blocks all were counted; of several, the average one.

    kept  the part of its bytes that is in L2 already, and stays there
    """
    p = assembled(p)
    once = 1.0 / p.launches
    again = _again_whole(p) * once
    read, written = _distinct(p, once * (1.0 - kept), whole=True)
    return _demand(p, gpu, once, (read, written), again, p.launches)


def demand_of_sample(s: SampledLaunch, gpu: GpuModel, warm: float = 0.0) -> Demand:
    """The demand of a launch of which some blocks were counted; `warm` bytes are in L2 already.

    What is more than it reads was written before, and is written again before it leaves L2.
    """
    drawn = None if s.drawn is None else assembled(s.drawn)
    s = replace(s, profile=assembled(s.profile), first=assembled(s.first), drawn=drawn)
    if s.drawn is not None:
        return _with_drawn(s, gpu, warm)
    scale = s.profile.launch.blocks / s.blocks
    read, written = _distinct(s.profile, scale, whole=s.blocks == s.profile.launch.blocks)
    distinct = max(0.0, read - warm), max(0.0, written - max(0.0, warm - read))
    return _demand(s.profile, gpu, scale, distinct, _again(s, gpu))


def _with_drawn(s: SampledLaunch, gpu: GpuModel, warm: float) -> Demand:
    """The work that one block has drawn for all, and what each of the others does beside it."""
    assert s.drawn is not None
    read, written = _distinct(s.drawn, 1.0, whole=True)
    drawn = _demand(s.drawn, gpu, 1.0, (max(0.0, read - warm), written), 0.0)
    scale = (s.profile.launch.blocks - 1) / s.blocks
    left = max(0.0, warm - read)
    read, written = _distinct(s.profile, scale, whole=False)
    own = _demand(s.profile, gpu, scale, (max(0.0, read - left), written), 0.0)
    names = {*drawn.units, *own.units}
    units = {n: drawn.units.get(n, 0.0) + own.units.get(n, 0.0) for n in sorted(names)}
    return replace(drawn, units=units, latency=drawn.latency + own.latency)


def _demand(
    p: Profile,
    gpu: GpuModel,
    scale: float,
    distinct: tuple[float, float],
    again: float,
    whole: int = 0,
) -> Demand:
    """The demand of `1 / scale` of a launch, or of so many whole ones."""
    blocks = p.launch.blocks
    read, written = distinct[0] + again, distinct[1]
    each = math.ceil(blocks / gpu.sms) / (blocks / gpu.sms) if blocks > gpu.sms else 1.0
    units = {"DRAM": (read + written) / (gpu.memory_gb_per_s * 1e9)}
    for u in floor.working(p, gpu):
        if u.name != "DRAM":
            name = u.name + (MMA if u.name.startswith("tensor") and _by_warps(p) else "")
            units[name] = u.seconds * scale * (1.0 if u.name in CHIP else each)
    if "L2" in units:  # an SM gets more where few ask
        units["L2"] *= max(floor.L2_BYTES / ALONE_BYTES, floor.busy_sms(p, gpu) / gpu.sms)
    copied = sum(floor.l2_sectors(a) for a in floor.accesses(p, "global") if a.kind in BULK)
    if copied:
        part = min(1.0, 32.0 * copied / floor.l2_bytes(p))
        units["L2" + COPIES] = units["L2"] * part
        units["L2"] *= 1.0 - part
    tags = sum(map(lookups, floor.accesses(p, "global")))
    used = floor.busy_sms(p, gpu) * gpu.boost_mhz * 1e6
    units[TAGS] = tags * scale * each / used
    slot = scale * each / (gpu.schedulers_per_sm * used)
    units["instructions"], units[OTHERS] = (n * slot for n in _issued(p))
    if "atomics" in units:
        units["atomics"] = max(units["atomics"], slice_seconds(p) * scale)
    units[PARTIAL] = partial_seconds(p, gpu) * scale
    reads = (a for a in floor.accesses(p, "global") if a.kind in floor.READS)
    fetched = 32.0 * scale * sum(map(floor.l2_sectors, reads))
    share = units["DRAM"] and gpu.memory_gb_per_s * 1e9 / used
    memory = Memory(min(1.0, read / fetched) if fetched else 0.0, share or ALONE_BYTES)
    waited = chain(p, memory, blocks / scale, whole)
    warps = blocks * -(-p.launch.threads // gpu.warp_size)
    resident = max(1, fit(p.launch, gpu).blocks) * gpu.sms
    waves = blocks / resident
    waves = math.ceil(waves) if waves <= FEW_WAVES else waves
    wave = waves / (gpu.boost_mhz * 1e6)
    latency = waited.clocks * scale / warps * wave + waited.tail / (gpu.boost_mhz * 1e6)
    early = any(i.executions and meets_next_launch(i.opcode) for i in p.instructions)
    ran = sum(slots_of(i.opcode) for i in p.instructions if i.executions and _stays(i))
    code = ran / (gpu.boost_mhz * 1e6)
    return Demand({n: s for n, s in units.items() if s}, latency, wave, waited, early, code)


def _stays(i: Instruction) -> bool:
    """False for what the assembler makes an operand of others."""
    return issues(i) and not is_removed(i.opcode)


def _issued(p: Profile) -> tuple[float, float]:
    """Warp instructions of kinds that the assembler keeps as they are, and others.

    Moves and loads of parameters become operands. Integer arithmetic and control flow change.
    """
    times, kept, others = needed(p), 0.0, 0.0
    for i in p.instructions:
        if not i.executions or not _stays(i):
            continue
        slots = times[i.index] * slots_of(i.opcode)
        if i.accesses or i.work[0].startswith(("fp", "special", "tensor")):
            kept += slots
        else:
            others += slots
    return kept, others


def lookups(a: Access) -> float:
    """Steps in which L1 looks up the lines of an access to global memory.

    Four lines take a step, if their words lie in different banks. Where each lane has a line of its
    own, as in a column of a matrix, they lie in the same bank.
    """
    if a.kind in BULK:
        return 0.0
    apart = min(1.0, max(0.0, (a.tags / a.requests - FEW_LINES) / FEW_LINES))
    return a.tag_wavefronts + (a.tags - a.tag_wavefronts) * apart


def _by_warps(p: Profile) -> bool:
    ran = [i for i in p.instructions if i.executions and i.work[0].startswith("tensor")]
    return not any(is_warpgroup_product(i.opcode) for i in ran)


def _distinct(p: Profile, scale: float, *, whole: bool) -> tuple[float, float]:
    """Bytes that are read and written at least once by one launch."""

    def scaled(a: Array, part: int) -> float:
        return part * scale if whole else min(part * scale, float(a.nbytes))

    return sum(scaled(a, a.read) for a in p.arrays), sum(scaled(a, a.written) for a in p.arrays)


def _again_whole(p: Profile) -> float:
    """Bytes that L2 reads again, as the model of a profile has it."""
    return max(0.0, p.totals["sim:dram__bytes_read.sum"] - sum(a.read for a in p.arrays))


def kept(launches: Sequence[Profile], gpu: GpuModel) -> float:
    """The part of its bytes that a launch of a program finds in L2, left by those before it.

    Launches of a program with little data use the same arrays again, or what another has written.
    """
    if sum(p.launches for p in launches) == 1:
        return 0.0
    sizes = dict[tuple[str, int], int]()
    for array in (array for p in launches for array in p.arrays):
        place = array.name, array.nbytes
        sizes[place] = max(sizes.get(place, 0), array.touched)
    return _survives(sum(sizes.values()), gpu)


def _survives(passed: float, gpu: GpuModel) -> float:
    """The part of older data that L2 still has after so many bytes."""
    sizes, survive = (np.array(x) for x in zip(*SURVIVES, strict=True))
    return float(np.interp(passed, sizes * gpu.l2 / MEASURED_L2, survive))


def _again(s: SampledLaunch, gpu: GpuModel) -> float:
    """Bytes that blocks read again from DRAM: L2 has evicted them since their first use."""
    p = s.first
    fetched = 32.0 * sum(
        floor.l2_sectors(a) for a in floor.accesses(p, "global") if a.kind in floor.READS
    )
    distinct = float(sum(a.read for a in p.arrays))
    touched = sum(a.touched for a in p.arrays) / s.first_blocks
    resident = min(p.launch.blocks, max(1, fit(p.launch, gpu).blocks) * gpu.sms)
    total = sum(_distinct(s.profile, p.launch.blocks / s.blocks, whole=False))
    # Blocks that run together may read the same bytes: at most their part of all distinct ones.
    passed = min(touched * resident, max(touched, total * resident / p.launch.blocks))
    survives = _survives(passed, gpu)
    # Blocks that run together read the same bytes at about the same time: L2 loses them once.
    each = distinct / s.first_blocks
    read = _distinct(s.profile, p.launch.blocks / s.blocks, whole=False)[0]
    shared = min(1.0, read / (each * resident)) if each else 1.0
    more = max(0.0, fetched - distinct) / s.first_blocks
    return more * shared * p.launch.blocks * (1.0 - survives)
