"""Properties and limits of a real GPU, as its driver reports them, with the names of `GpuModel`."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from weft.device import driver


@dataclass(frozen=True)
class GpuFacts:
    """One GPU of this machine. Sizes are in bytes unless a name says otherwise."""

    number: int
    name: str
    compute_capability: tuple[int, int]
    sms: int
    memory: int
    clock_mhz: int
    memory_mhz: int
    memory_bus_bits: int
    l2: int
    shared_per_sm: int
    shared_per_block: int
    static_shared_per_block: int
    reserved_shared: int
    registers_per_sm: int
    registers_per_block: int
    max_threads_per_sm: int
    max_blocks_per_sm: int
    max_threads_per_block: int
    max_block: tuple[int, int, int]
    max_grid: tuple[int, int, int]
    warp_size: int
    constant_memory: int
    cooperative_launch: bool
    cluster_launch: bool
    ecc: bool

    @property
    def max_cluster(self) -> int:
        """Blocks of the largest cluster that may fit; a launch of more than 8 may be refused."""
        # Hopper and the data-centre parts of Blackwell have 16; the driver reports none of them.
        return (16 if self.compute_capability[0] in (9, 10) else 8) if self.cluster_launch else 0

    @property
    def machine(self) -> str:
        """The architecture to compile for: with all that only this generation has."""
        major, minor = self.compute_capability
        return f"sm_{major}{minor}{'a' if major >= 9 else ''}"


@functools.cache
def facts(number: int) -> GpuFacts:
    """The facts of one GPU."""
    device = driver.device(number)
    p = device.properties
    return GpuFacts(
        number=number,
        name=device.name,
        compute_capability=(p.compute_capability_major, p.compute_capability_minor),
        sms=p.multiprocessor_count,
        memory=_memory(number),
        clock_mhz=p.clock_rate // 1000,
        memory_mhz=p.memory_clock_rate // 1000,
        memory_bus_bits=p.global_memory_bus_width,
        l2=p.l2_cache_size,
        shared_per_sm=p.max_shared_memory_per_multiprocessor,
        shared_per_block=p.max_shared_memory_per_block_optin,
        static_shared_per_block=p.max_shared_memory_per_block,
        reserved_shared=p.reserved_shared_memory_per_block,
        registers_per_sm=p.max_registers_per_multiprocessor,
        registers_per_block=p.max_registers_per_block,
        max_threads_per_sm=p.max_threads_per_multiprocessor,
        max_blocks_per_sm=p.max_blocks_per_multiprocessor,
        max_threads_per_block=p.max_threads_per_block,
        max_block=(p.max_block_dim_x, p.max_block_dim_y, p.max_block_dim_z),
        max_grid=(p.max_grid_dim_x, p.max_grid_dim_y, p.max_grid_dim_z),
        warp_size=p.warp_size,
        constant_memory=p.total_constant_memory,
        cooperative_launch=bool(p.cooperative_launch),
        cluster_launch=p.compute_capability_major >= 9,
        ecc=bool(p.ecc_enabled),
    )


def _memory(number: int) -> int:
    binding = driver.bindings()
    code, nbytes = binding.cuDeviceTotalMem(number)
    driver.check(int(code), "asking for the size of memory")
    return int(nbytes)
