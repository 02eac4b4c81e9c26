"""`cupy.cuda.Device`: the one simulated GPU."""

from __future__ import annotations

import functools
from typing import Any

from weft.frontends.cupy import memory
from weft.frontends.cupy.current import model


class CUDARuntimeError(RuntimeError):
    """An error of CUDA's runtime, by its number and name."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@functools.total_ordering
class Device:
    """The simulated GPU."""

    def __init__(self, device: Any = None) -> None:
        self.id = 0 if device is None else int(getattr(device, "id", device))

    def __int__(self) -> int:
        return self.id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self.id == other.id

    def __lt__(self, other: Any) -> bool:
        return self.id < int(other) if isinstance(other, Device) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"<CUDA Device {self.id}>"

    def __enter__(self) -> Device:
        self.use()
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def use(self) -> Device:
        """Make it the current device."""
        if self.id != 0:
            raise CUDARuntimeError(
                101,
                f"cudaErrorInvalidDevice: invalid device ordinal {self.id}; "
                "cupy has one simulated GPU, device 0",
            )
        return self

    def synchronize(self) -> None:
        """Return at once: launches are synchronous."""

    @property
    def compute_capability(self) -> str:
        major, minor = model().compute_capability
        return f"{major}{minor}"

    @property
    def attributes(self) -> dict[str, Any]:
        self.use()
        gpu = model()
        block, grid = gpu.max_block, gpu.max_grid
        return {
            "ComputeCapabilityMajor": gpu.compute_capability[0],
            "ComputeCapabilityMinor": gpu.compute_capability[1],
            "MaxBlockDimX": block[0], "MaxBlockDimY": block[1], "MaxBlockDimZ": block[2],
            "MaxGridDimX": grid[0], "MaxGridDimY": grid[1], "MaxGridDimZ": grid[2],
            "MaxRegistersPerBlock": gpu.registers_per_block,
            "MaxSharedMemoryPerBlock": gpu.static_shared_per_block,
            "MaxSharedMemoryPerBlockOptin": gpu.shared_per_block,
            "MaxSharedMemoryPerMultiprocessor": gpu.shared_per_sm,
            "MaxThreadsPerBlock": gpu.max_threads_per_block,
            "MaxThreadsPerMultiProcessor": gpu.max_warps_per_sm * gpu.warp_size,
            "MultiProcessorCount": gpu.sms, "WarpSize": gpu.warp_size, "L2CacheSize": gpu.l2,
            "ClockRate": gpu.boost_mhz * 1000, "GlobalMemoryBusWidth": gpu.memory_bus_bits,
        }  # fmt: skip

    @property
    def mem_info(self) -> tuple[int, int]:
        """The free and the total bytes of its memory."""
        return memory.memory_info(model())

    @property
    def pci_bus_id(self) -> str:
        return "0000:00:00.0"

    @staticmethod
    def from_pci_bus_id(text: str) -> Device:
        if text != Device().pci_bus_id:
            raise CUDARuntimeError(101, f"cudaErrorInvalidDevice: no device has the id {text!r}")
        return Device(0)


def get_device_id() -> int:
    return 0


def get_compute_capability() -> str:
    return Device().compute_capability
