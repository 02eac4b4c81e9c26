"""The operations and kernels of a PyTorch script, one by one and in groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class GpuKernel(NamedTuple):
    """One kernel or copy that a GPU ran; times are in seconds."""

    name: str
    start: float
    seconds: float
    stream: int = 0


class Origin(NamedTuple):
    """The origin of an operation; parts that are not known are empty."""

    module: str = ""
    line: str = ""
    node: str = ""


@dataclass(frozen=True)
class Call:
    """One operation, or one launch of a kernel.

    bytes      that it reads and writes at least
    allocated  bytes of its new results
    memory     bytes of all tensors after it
    seconds    its least time on the GPU
    library    True for products, convolutions and attention
    kernel     True for a launch of a kernel that is not torch's own
    number     by which a real GPU's times find the call
    kernels    that a real GPU ran for it; None on the simulated GPU
    """

    name: str
    place: Origin
    flops: float
    bytes: float
    allocated: int
    memory: int
    seconds: float
    library: bool = False
    kernel: bool = False
    number: int = 0
    kernels: tuple[GpuKernel, ...] | None = None


@dataclass(frozen=True)
class Group:
    """Calls of the same name and place, added up.

    measured  seconds on a real GPU; None on the simulated GPU
    kernels   names of the kernels that a real GPU ran
    """

    name: str
    place: Origin
    calls: int
    flops: float
    bytes: float
    allocated: int
    seconds: float
    library: bool
    kernel: bool
    measured: float | None = None
    kernels: tuple[str, ...] = ()

    @property
    def transfer(self) -> bool:
        """True if a real GPU only copied from or to the host."""
        return bool(self.kernels) and all(
            name.startswith(("Memcpy HtoD", "Memcpy DtoH")) for name in self.kernels
        )

    @property
    def time(self) -> float:
        """The measured time, or the least time."""
        return self.seconds if self.measured is None else self.measured


def grouped(calls: Iterable[Call]) -> list[Group]:
    """The groups, the one with the most time first."""
    members: dict[tuple[str, Origin], list[Call]] = {}
    for call in calls:
        members.setdefault((call.name, call.place), []).append(call)
    groups = [
        Group(
            name, place, len(of), sum(c.flops for c in of), sum(c.bytes for c in of),
            sum(c.allocated for c in of), sum(c.seconds for c in of), of[0].library, of[0].kernel,
            *_measured(of),
        )
        for (name, place), of in members.items()
    ]  # fmt: skip
    return sorted(groups, key=lambda g: -g.time)


def _measured(calls: Sequence[Call]) -> tuple[float | None, tuple[str, ...]]:
    """The time of all kernels of calls, and their names."""
    if any(c.kernels is None for c in calls):
        return None, ()
    kernels = [k for c in calls for k in c.kernels or ()]
    return sum(k.seconds for k in kernels), tuple(dict.fromkeys(k.name for k in kernels))


@dataclass(frozen=True)
class ModelProfile:
    """The profile of a PyTorch script.

    gpu      the name of the GPU
    peak     the peak of allocated memory in bytes
    tuning   seconds that autotuners took on a real GPU
    """

    script: str
    gpu: str
    calls: tuple[Call, ...]
    peak: int
    tuning: float = 0.0
