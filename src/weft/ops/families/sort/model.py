"""Models the time of sorting kernels.

The figures are for an NVIDIA H200 (132 SMs, 1.98 GHz). Those of digits and tallies were fitted to
the candidates of `benchmarks/records/sort_candidates.jsonl`, the others are estimates from the
instructions of each kernel; `weft tune` measures the candidates of a call where they are off.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.kernels import cdiv
from weft.ops.core.target import Target


@dataclass(frozen=True)
class Figures:
    """Constants of the model.

    exchange      warp instructions of an element's step in a bitonic network, per 32-bit word
    digit         warp instructions to rank and move an element by one digit in shared memory
    pass_digit    the same through memory
    large_tile    factor on it for tiles of more than 8 warps
    look_back     seconds per tile under way until a tile knows the sums of those before it
    bins          warp instructions per warp to clear, sum and scan the counts of one digit
    selected      warp instructions of an element while the k-th key of its tile is found
    searched      warp instructions of a step of a binary search
    tallied       elements of one value that an SM counts in shared memory per second
    tallied_by_lanes  the same where each lane has its own count
    issue         warp instructions per second and SM
    alone         the share of `issue` that one warp reaches
    latency       seconds from a block's first load to its last store
    pass_latency  seconds of a pass over a digit within a block: barriers and dependent steps
    clear         seconds to fill a buffer with zeros before a launch
    clear_rate    bytes per second of that
    sector        bytes of memory that an element costs where its neighbours are far away
    """

    exchange: float = 4.0
    digit: float = 74.0
    pass_digit: float = 154.0
    large_tile: float = 1.12
    look_back: float = 0.026e-6
    bins: float = 150.0
    selected: float = 24.0
    searched: float = 12.0
    tallied: float = 3.5e9
    tallied_by_lanes: float = 10e9
    issue: float = 3.5e9
    alone: float = 0.12
    latency: float = 2.5e-6
    pass_latency: float = 1.2e-6
    clear: float = 5e-6
    clear_rate: float = 2e12
    sector: int = 32


H200 = Figures()


def busy(gpu: Target, blocks: int, warps: int, resident: int, instructions: float) -> float:
    """Seconds of blocks whose warps run so many instructions each; `resident` fit an SM."""
    together = min(resident, cdiv(blocks, gpu.sms))
    rate = H200.issue * min(1.0, together * warps * H200.alone)
    return cdiv(blocks, gpu.sms * together) * together * warps * instructions / rate


def resident(gpu: Target, threads: int, shared: int) -> int:
    """Blocks of an SM at once, with 64 registers per thread."""
    by_threads = min(gpu.threads_per_sm, 1024) // threads
    # CUDA reserves 1 KiB of shared memory per block.
    return max(1, min(by_threads, gpu.shared_per_sm // (shared + 1024), 32))


def moved(gpu: Target, size: float) -> float:
    """Seconds to read or write so many bytes."""
    return size / gpu.bandwidth


def element_bytes(step: int, inner_step: int, itemsize: int, together: bool) -> int:
    """Bytes that access to an element costs.

    together  True if one block has neighbouring rows, False if blocks have one row each
    """
    near = step == 1 or (together and inner_step == 1)
    # Blocks of neighbouring rows run at the same time: half of a sector is found in the cache.
    return itemsize if near else max(itemsize, H200.sector // 2)
