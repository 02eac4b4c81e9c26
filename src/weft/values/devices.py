"""The GPUs that kernels can run on: simulated ones, and those of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SimulatedGpu:
    """A GPU that can be simulated; sizes are in bytes.

    key      the word after `sim:`
    default  whether `sim` means this one
    facts    all that is known of it, for JSON
    """

    name: str
    key: str
    compute_capability: tuple[int, int]
    sms: int
    cores: int
    base_mhz: int | None
    boost_mhz: int
    memory: int
    memory_gb_per_s: float
    l2: int
    shared_per_block: int
    compile_for: str
    default: bool
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class RealGpu:
    """A GPU of this machine; sizes are in bytes.

    machine  the architecture that code is compiled for
    facts    all that its driver reports, for JSON
    """

    name: str
    number: int
    machine: str
    sms: int
    clock_mhz: int
    memory_mhz: int
    memory: int
    l2: int
    shared_per_block: int
    max_threads_per_block: int
    registers_per_block: int
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class DriverVersions:
    """The version of the driver, "" where unknown, and the CUDA and PTX that it supports."""

    driver: str
    cuda: tuple[int, int]
    ptx: tuple[int, int]


@dataclass(frozen=True)
class Devices:
    """All devices; without a real one, `absence` says why and `driver` is None."""

    simulated: tuple[SimulatedGpu, ...]
    real: tuple[RealGpu, ...]
    driver: DriverVersions | None
    absence: str

    def to_dict(self) -> dict[str, Any]:
        """The facts of all devices, for JSON."""
        return {
            "simulated": [g.facts for g in self.simulated],
            "real": [g.facts for g in self.real],
        }
