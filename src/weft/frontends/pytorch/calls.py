"""The operations and kernels of a PyTorch script, one by one and in groups; needs no torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from weft.device.models import GpuModel
from weft.measure.profile import floor
from weft.measure.profile.values import Profile


class GpuKernel(NamedTuple):
    """One kernel or copy that a GPU ran; times are in seconds."""

    name: str
    start: float
    seconds: float
    stream: int = 0


class Origin(NamedTuple):
    """The origin of an operation; a field is empty where it is unknown."""

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


def with_profiles(calls: Iterable[Call], profiles: Sequence[Profile], gpu: GpuModel) -> list[Call]:
    """Give the launches of kernels the work and the least time of their profiles."""
    by_name: dict[str, list[Profile]] = {}
    for profile in profiles:
        by_name.setdefault(profile.launch.kernel, []).append(profile)
    known = {name: _each(found, gpu) for name, found in by_name.items()}
    return [_known(c, known.get(c.name)) if c.kernel else c for c in calls]


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


def _known(call: Call, work: tuple[float, float, float] | None) -> Call:
    if work is None:
        return call
    seconds, flops, moved = work
    return replace(call, seconds=seconds, flops=flops, bytes=moved)


def _each(profiles: Sequence[Profile], gpu: GpuModel) -> tuple[float, float, float]:
    """(least time, operations, bytes) of one launch, on average over the shapes of a kernel."""
    launches = sum(p.launches for p in profiles)
    seconds = sum(floor.seconds(floor.units(p, gpu)) for p in profiles)
    flops = sum(
        n for p in profiles for unit, n in floor.work(p).items() if unit[:2] in ("fp", "te")
    )
    moved = sum(floor.dram_bytes(p) for p in profiles)
    return seconds / launches, flops / launches, moved / launches
