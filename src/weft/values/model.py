"""The operations and kernels of a PyTorch script, one by one and in groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


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


NOWHERE = Origin()


class TensorType(NamedTuple):
    """The type and the shape of a tensor: `float32 64 x 128`."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype} {' x '.join(map(str, self.shape)) or 'scalar'}"


class ScriptEvent(NamedTuple):
    """A forward pass of a module that no other module calls, or a step of an optimizer.

    parameters  True for a module that has parameters
    """

    kind: str
    name: str
    parameters: bool = False


FORWARD, BACKWARD, OPTIMIZER = "forward", "backward", "optimizer"
"""The phases of a call, and the kinds of events."""


@dataclass(frozen=True)
class Call:
    """One operation, or one launch of a kernel.

    bytes      that it reads and writes at least
    allocated  bytes of its new results
    memory     bytes of all tensors after it
    seconds    its least time on the GPU; that of a profiled kernel is modelled by its counters
    library    True for products, convolutions and attention
    kernel     True for a launch of a kernel that is not torch's own
    number     by which a real GPU's times find the call
    kernels    that a real GPU ran for it; None on the simulated GPU
    phase      forward, backward or optimizer
    moment     the number of events of the script before it
    limit      the rate that bounds it: DRAM, fp32, tensor.bf16, …
    roofline   the least time of its work, where `seconds` is modelled by counters
    reads      the allocations that it reads, by number
    writes     the allocations that it writes, by number
    operands   its arguments by name, tensors by their type
    operation  the operation of PyTorch that launched the kernel, e.g. weft::linear
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
    phase: str = FORWARD
    moment: int = 0
    limit: str = "DRAM"
    roofline: float | None = None
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    operands: Mapping[str, Any] = field(default_factory=dict)
    operation: str = ""

    @property
    def time(self) -> float:
        """Seconds that a real GPU took, or the least time."""
        return self.seconds if self.kernels is None else sum(k.seconds for k in self.kernels)

    @property
    def floor(self) -> float:
        """The least time of its work, whatever the kernel."""
        return self.seconds if self.roofline is None else self.roofline


@dataclass(frozen=True)
class Allocation:
    """The memory of one tensor.

    place  the operation that made it
    role   parameters, buffers, gradients or optimizer state; empty for other tensors
    """

    bytes: int
    place: Origin = NOWHERE
    phase: str = FORWARD
    role: str = ""


@dataclass(frozen=True)
class MemoryLog:
    """The allocations of a script by number, and their order: a number, negative where it ends."""

    allocations: Mapping[int, Allocation] = field(default_factory=dict)
    order: Sequence[int] = ()


class ModuleFacts(NamedTuple):
    """The class of a module, and the bytes of the parameters that it holds itself."""

    kind: str
    parameters: int = 0


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
    events   forward passes and optimizer steps, in order
    modules  the modules by their path
    memory   the allocations of tensors
    """

    script: str
    gpu: str
    calls: tuple[Call, ...]
    peak: int
    tuning: float = 0.0
    events: tuple[ScriptEvent, ...] = ()
    modules: Mapping[str, ModuleFacts] = field(default_factory=dict)
    memory: MemoryLog = field(default_factory=MemoryLog)
