"""Models accesses that wait for each other: atomic operations, and stores to parts of a sector.

An SM adds integers of 32 bits to shared memory in one step. It adds floats and 64 bits in a loop: a
lane loads a word, adds, and stores the sum if the word is still the same, so that lanes that add to
one word do it one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping

from weft.device.models import GpuModel
from weft.measure.profile import floor
from weft.measure.profile.prediction import constants as c
from weft.measure.profile.prediction.assembled import SECTOR
from weft.measure.profile.prediction.uniform import at_one_address, same_registers
from weft.measure.profile.work import is_atomic, operation
from weft.values.profile import Access, Instruction, Profile

ATOMIC = ("atomic", "reduction")
SLICE_BYTES = 512
"""Bytes of an array that are in one slice of L2: 256 counters of 4 bytes are in two of them, with
twice the rate of one address (histogram, global atomics, in `records/ladders.jsonl`)."""
WORDS = 8
"""Words of a sector."""
FLOATS_ON_LINE = 0.7e9
"""Additions of floats per second on one line (recorded times of the ladder reduce)."""
_FLOATS = frozenset(("f16", "f16x2", "bf16", "bf16x2", "f32", "f64"))
_WIDE = frozenset(("u64", "s64", "b64"))
_ONE_STEP = frozenset(("exch", "cas"))


def spin_clocks(p: Profile, warps: int) -> Mapping[int, float]:
    """Index -> the clocks of a warp in the loop of an atomic operation on shared memory.

    All warps of a block go through it at the same time; at one address they wait for each other.
    """
    loops = [i for i in p.instructions if i.accesses and _is_loop(i)]
    same = same_registers(p) if loops else frozenset[str]()
    return {
        i.index: c.SPIN_CLOCKS * (warps * _lanes(i) if at_one_address(i, same) else _trips(i))
        for i in loops
    }


def _lanes(i: Instruction) -> float:
    return max(a.threads / a.requests for a in i.accesses)


def _trips(i: Instruction) -> float:
    """Trips through the loop: each has a wavefront to load and one to store."""
    return max(a.wavefronts / (2 * a.requests) for a in i.accesses)


def _is_loop(i: Instruction) -> bool:
    near = all(a.space == "shared" and a.kind in ATOMIC for a in i.accesses)
    if not near or not is_atomic(i.opcode):
        return False
    name, kind = operation(i.opcode)
    return kind in _FLOATS or (kind in _WIDE and name not in _ONE_STEP)


def slice_seconds(p: Profile) -> float:
    """Seconds of atomic operations on global memory whose words are few: slices of L2 do them."""
    slices = sum(-(-min(a.read, a.written) // SLICE_BYTES) for a in p.arrays)
    lines = sum(-(-min(a.read, a.written) // 128) for a in p.arrays)
    found = [(i, a) for i in p.instructions for a in i.accesses if _is_far(a)]
    floats = sum(a.sectors for i, a in found if operation(i.opcode)[1] in _FLOATS)
    integers = sum(a.sectors for _, a in found) - floats
    return integers / max(1, slices) / floor.SAME_ADDRESS + floats / max(1, lines) / FLOATS_ON_LINE


def partial_seconds(p: Profile, gpu: GpuModel) -> float:
    """Seconds of stores that fill a part of a sector: L2 merges it with the rest.

    It does so at the rate of atomic operations on all words of a sector.
    """
    stores = [a for a in floor.accesses(p, "global") if a.kind == "store"]
    partial = sum(a.sectors for a in stores) - sum(a.bytes for a in stores) / SECTOR
    rate = floor.ATOMICS / WORDS * gpu.sms * gpu.boost_mhz * 1e6
    return max(0.0, partial) / rate


def _is_far(a: Access) -> bool:
    return a.space == "global" and a.kind in ATOMIC
