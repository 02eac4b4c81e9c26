"""Attributes of the simulated GPU, by the names that the CUDA driver has for them."""

from __future__ import annotations

from collections.abc import Callable

from weft.device.models import GpuModel
from weft.errors import LaunchError

_ATTRIBUTES: dict[str, Callable[[GpuModel], int]] = {
    "ASYNC_ENGINE_COUNT": lambda m: 1,
    "CAN_MAP_HOST_MEMORY": lambda m: 1,
    "CLOCK_RATE": lambda m: m.boost_mhz * 1000,
    "COMPUTE_CAPABILITY_MAJOR": lambda m: m.compute_capability[0],
    "COMPUTE_CAPABILITY_MINOR": lambda m: m.compute_capability[1],
    "COMPUTE_MODE": lambda m: 0,
    "CONCURRENT_KERNELS": lambda m: 1,
    "CONCURRENT_MANAGED_ACCESS": lambda m: 1,
    "COOPERATIVE_LAUNCH": lambda m: 1,
    "ECC_ENABLED": lambda m: 0,
    "GPU_OVERLAP": lambda m: 0,
    "INTEGRATED": lambda m: 0,
    "KERNEL_EXEC_TIMEOUT": lambda m: 0,
    "L2_CACHE_SIZE": lambda m: m.l2,
    "MANAGED_MEMORY": lambda m: 1,
    "MAX_BLOCKS_PER_MULTIPROCESSOR": lambda m: m.max_blocks_per_sm,
    "MAX_BLOCK_DIM_X": lambda m: m.max_block[0],
    "MAX_BLOCK_DIM_Y": lambda m: m.max_block[1],
    "MAX_BLOCK_DIM_Z": lambda m: m.max_block[2],
    "MAX_GRID_DIM_X": lambda m: m.max_grid[0],
    "MAX_GRID_DIM_Y": lambda m: m.max_grid[1],
    "MAX_GRID_DIM_Z": lambda m: m.max_grid[2],
    "MAX_REGISTERS_PER_BLOCK": lambda m: m.registers_per_block,
    "MAX_REGISTERS_PER_MULTIPROCESSOR": lambda m: m.registers_per_sm,
    "MAX_SHARED_MEMORY_PER_BLOCK": lambda m: m.static_shared_per_block,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": lambda m: m.shared_per_block,
    "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": lambda m: m.shared_per_sm,
    "MAX_THREADS_PER_BLOCK": lambda m: m.max_threads_per_block,
    "MAX_THREADS_PER_MULTIPROCESSOR": lambda m: m.max_threads_per_sm,
    "MULTIPROCESSOR_COUNT": lambda m: m.sms,
    "PCI_BUS_ID": lambda m: 0,
    "PCI_DEVICE_ID": lambda m: 0,
    "PCI_DOMAIN_ID": lambda m: 0,
    "RESERVED_SHARED_MEMORY_PER_BLOCK": lambda m: m.reserved_shared,
    "SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO": lambda m: m.cores_per_sm // m.fp64_per_sm,
    "STREAM_PRIORITIES_SUPPORTED": lambda m: 0,
    "TCC_DRIVER": lambda m: 0,
    "TOTAL_CONSTANT_MEMORY": lambda m: m.constant_memory,
    "UNIFIED_ADDRESSING": lambda m: 1,
    "WARP_SIZE": lambda m: m.warp_size,
}


def attribute(model: GpuModel, name: str) -> int:
    """The value of an attribute, e.g. MULTIPROCESSOR_COUNT."""
    if name not in _ATTRIBUTES:
        raise LaunchError(
            "the simulated GPU has no such attribute", got=name, allowed=", ".join(_ATTRIBUTES)
        )
    return _ATTRIBUTES[name](model)
