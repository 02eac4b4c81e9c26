"""The cost model of gathers and of sums by index."""

from __future__ import annotations

from dataclasses import dataclass

from weft.kernels import cdiv
from weft.ops.core.target import Target


@dataclass(frozen=True)
class IndexModel:
    """The constants of the model.

    sector           bytes that memory delivers at least for one element
    lookups          indices that one SM compares per second, in `search`
    lookup           seconds from one index of a thread to its next one, in `search`
    wait             seconds from one addition of a thread to its next one, in `lines`
    additions        atomic additions that memory makes per second
    sorting          seconds that a stable sort of any size takes, with its launches
    sorted_elements  elements that a stable sort orders per second
    """

    sector: int
    lookups: float
    lookup: float
    wait: float
    additions: float
    sorting: float
    sorted_elements: float


H200 = IndexModel(
    sector=32,
    lookups=5e9,
    lookup=0.1e-6,
    wait=0.4e-6,
    additions=1e11,
    sorting=60e-6,
    sorted_elements=3e9,
)
"""Estimated from the figures of the H200. The two of `search` follow from its slowest calls of the
sweep with seed 30 (benchmarks/records/ops_sweep.jsonl)."""

SMS = 132
"""Multiprocessors of the H200."""
MOST_SEARCHED = 1024
"""Positions along the dimension up to which `search` is a candidate."""
LEAST_SORTED = 4096
"""Indices below which no sort pays: it takes several launches."""


def gather(gpu: Target, elements: int, itemsize: int, index_bytes: int, together: int) -> float:
    """Seconds to gather elements of which `together` neighbours have one index."""
    read = elements * max(itemsize, H200.sector // together)
    return gpu.launch + (read + elements * itemsize + index_bytes) / gpu.bandwidth


def search(gpu: Target, elements: int, itemsize: int, positions: int, each: int) -> float:
    """Seconds to compare so many positions for each element of the result, `each` per thread."""
    compared = elements * positions / (H200.lookups * gpu.sms)
    waited = positions * each * H200.lookup
    return gpu.launch + max(2 * elements * itemsize / gpu.bandwidth, compared, waited)


def lines(gpu: Target, count: int, positions: int, itemsize: int) -> float:
    """Seconds to add the positions of so many lines, a thread each."""
    waves = cdiv(count, gpu.threads)
    moved = count * positions * (itemsize + H200.sector) / gpu.bandwidth
    return 2 * gpu.launch + max(positions * H200.wait * waves, moved)


def atomic(gpu: Target, count: int, moved: int) -> float:
    """Seconds to copy the base, to read so many bytes in all and to make so many additions."""
    return 2 * gpu.launch + max(moved / gpu.bandwidth, count / H200.additions)


def by_sort(gpu: Target, keys: int, moved: int) -> float:
    """Seconds to sort so many keys and to add bytes in their order."""
    time = H200.sorting + keys / H200.sorted_elements + moved / gpu.bandwidth
    return time + 4 * gpu.launch


def is_faster_sorted(lines: int, positions: int, rows: int) -> bool:
    """True if a sort pays for sums of so many positions per line; the same on every GPU.

    It is computed from sizes alone, so that torch.compile can trace it.
    """
    compared = lines * rows * positions / (H200.lookups * SMS)
    if positions <= MOST_SEARCHED and max(compared, positions * H200.lookup) < H200.sorting:
        return False
    added = positions * H200.wait * (1 + lines // 2**18)
    ordered = H200.sorting + lines * positions / H200.sorted_elements
    return added > ordered
