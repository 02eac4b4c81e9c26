"""Occupancy: how many blocks of a launch an SM holds at once, and what limits them.

The rules reproduce the CUDA driver's own answers on an H200, all of 26,228 that were recorded.
"""

from __future__ import annotations

from weft.device.models import GpuModel
from weft.records import dataclass

REGISTER_UNIT = 256
"""Registers are given to a warp in such units, and to a block's warps from four equal files."""
REGISTER_FILES = 4
SHARED_UNIT = 128
CLUSTERED_BLOCKS = 8
"""Blocks of clusters that the driver counts for an SM at most."""


@dataclass(frozen=True)
class Occupancy:
    """Resident blocks of an SM.

    limits     what -> how many blocks it alone would allow
    limiter    the limits that decide, by name
    warps      resident warps of an SM, out of `max_warps`
    """

    blocks: int
    warps: int
    max_warps: int
    limits: dict[str, int]
    limiter: tuple[str, ...]

    @property
    def fraction(self) -> float:
        """Resident warps as a part of what an SM can hold."""
        return self.warps / self.max_warps


def occupancy(
    gpu: GpuModel, *, threads: int, registers: int | None, shared_bytes: int
) -> Occupancy:
    """For blocks of `threads` with `shared_bytes` of static and dynamic shared memory.

    Registers that are not known limit nothing.
    """
    warps = -(-threads // gpu.warp_size)
    shared = -(-(shared_bytes + gpu.reserved_shared) // SHARED_UNIT) * SHARED_UNIT
    limits = {
        "warps": gpu.max_warps_per_sm // warps,
        "blocks": gpu.max_blocks_per_sm,
        "shared memory": gpu.shared_per_sm // shared if shared else gpu.max_blocks_per_sm,
    }
    if registers:
        limits["registers"] = _warps_by_registers(gpu, registers) // warps
    blocks = min(limits.values())
    return Occupancy(
        blocks=blocks,
        warps=blocks * warps,
        max_warps=gpu.max_warps_per_sm,
        limits=limits,
        limiter=tuple(name for name, n in limits.items() if n == blocks),
    )


def active_clusters(gpu: GpuModel, blocks: int, size: int) -> int:
    """Clusters of `size` blocks that the GPU holds at once, with `blocks` on each SM.

    The blocks of a cluster are on SMs of one GPC, which has at least as many of them: the driver's
    answers on an H200, all of 1,040 that were recorded.
    """
    blocks = min(blocks, CLUSTERED_BLOCKS)
    return sum(sms * blocks // size for sms in gpu.gpcs if size <= sms)


def _warps_by_registers(gpu: GpuModel, registers: int) -> int:
    warp = -(-registers * gpu.warp_size // REGISTER_UNIT) * REGISTER_UNIT
    # Rounded per file: the registers of one warp lie in one file.
    return gpu.registers_per_sm // REGISTER_FILES // warp * REGISTER_FILES
