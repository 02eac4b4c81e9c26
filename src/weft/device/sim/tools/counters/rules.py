"""The cost of an access of a whole warp to shared memory at constant distances.

If all lanes move by a multiple of a bank's width, the banks rotate and the cost stays the same.
Only the position of the first byte in its word matters, and only for accesses of less than a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LANES = range(32)


@dataclass(frozen=True, slots=True)
class SharedCost:
    """The cost of one access: wavefronts, the parts of the warp, and the minimum."""

    wavefronts: int
    parts: int
    ideal: int


def shared_cost(offsets: Sequence[int | None], width: int, *, reads: bool) -> SharedCost:
    """A load or store of `width` bytes by the lanes that have an offset."""
    parts = max(1, width // 4)
    if reads and parts > 1 and any(_agree(offsets, mask) for mask in (1, 2)):
        parts //= 2  # every lane of a pair reads the same
    size = 32 // parts
    groups = [
        [x for x in offsets[i * size : (i + 1) * size] if x is not None] for i in range(parts)
    ]
    depths = [depth(group, width) for group in groups if group]
    threads = sum(map(len, groups))
    return SharedCost(sum(depths), len(depths), min(len(depths), -(-threads * width // 128)))


def _agree(offsets: Sequence[int | None], mask: int) -> bool:
    """Return whether all active lanes agree with the lane whose number differs by `mask`."""
    pairs = ((offsets[i], offsets[i ^ mask]) for i in LANES)
    return all(a is None or b is None or a == b for a, b in pairs)


def matrix_cost(offsets: Sequence[int], count: int) -> SharedCost:
    """`ldmatrix` and `stmatrix`: eight rows of 16 bytes make a part."""
    depths = [depth(offsets[8 * i : 8 * i + 8], 16) for i in range(count)]
    return SharedCost(sum(depths), count, count)


def depth(offsets: Sequence[int], width: int) -> int:
    """The most different units that fall into one bank, for accesses that are aligned."""
    unit = max(4, width)
    banks: dict[int, set[int]] = {}
    for at in offsets:
        word = at // unit
        banks.setdefault(word % (128 // unit), set()).add(word)
    return max(len(words) for words in banks.values())
