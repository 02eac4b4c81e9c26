"""One step of a PyTorch script by layers: time, work, kernels, memory, and what to do next."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class KernelUse:
    """A kernel, or an operation of PyTorch on the simulated GPU, and how often a layer runs it."""

    name: str
    phase: str
    calls: int
    time: float
    floor: float
    limit: str


@dataclass(frozen=True)
class PhaseWork:
    """The work of a layer in one phase; `time` is measured or the least, `floor` the roofline."""

    phase: str
    calls: int
    flops: float
    bytes: float
    time: float
    floor: float


@dataclass(frozen=True)
class Layer:
    """A row: one module, equal modules of a list (`blocks.*.mlp`), or a line outside of modules.

    kind        the class of the module; empty outside of modules
    count       the number of modules
    parameters  bytes of the parameters
    held        bytes of results that it holds at the peak of memory
    limit       the rate that bounds most of its time: DRAM, fp32, tensor.bf16, …
    """

    name: str
    kind: str
    count: int
    phases: tuple[PhaseWork, ...]
    kernels: tuple[KernelUse, ...]
    parameters: int
    held: int
    limit: str

    @property
    def time(self) -> float:
        """Seconds of all phases."""
        return sum(p.time for p in self.phases)

    @property
    def floor(self) -> float:
        """The least time of all phases."""
        return sum(p.floor for p in self.phases)

    @property
    def flops(self) -> float:
        return sum(p.flops for p in self.phases)

    @property
    def bytes(self) -> float:
        return sum(p.bytes for p in self.phases)

    @property
    def calls(self) -> int:
        return sum(p.calls for p in self.phases)

    def in_phase(self, phase: str) -> float:
        """Seconds of one phase."""
        return sum(p.time for p in self.phases if p.phase == phase)


@dataclass(frozen=True)
class Holding:
    """Bytes that one owner holds at the peak: a role of tensors, or the results of a layer."""

    role: str
    owner: str
    bytes: int
    tensors: int


@dataclass(frozen=True)
class PeakMemory:
    """The peak of allocated memory and its holders, the largest first.

    place     the operation that reached the peak
    unknown   bytes of the peak that no tensor has: temporaries and workspaces of operations
    """

    bytes: int
    place: str
    holdings: tuple[Holding, ...]
    unknown: int = 0

    def roles(self) -> dict[str, int]:
        """Bytes by role, the largest first."""
        found: dict[str, int] = {}
        for holding in self.holdings:
            found[holding.role] = found.get(holding.role, 0) + holding.bytes
        if self.unknown:
            found["temporaries and workspaces"] = self.unknown
        return dict(sorted(found.items(), key=lambda item: -item[1]))


@dataclass(frozen=True)
class StepAdvice:
    """One change to a model.

    gain    seconds of the step that it can save; 0 where it saves memory
    saves   bytes of the peak that it can save
    """

    rule: str
    evidence: str
    change: str
    gain: float = 0.0
    saves: int = 0


@dataclass(frozen=True)
class StepProfile:
    """The step of a script that takes most of its time.

    measured  True if a real GPU took the times
    steps     how many steps the script makes, and `alike` how many are as this one
    shown     the number of the shown step, from 1 on
    launches  operations and kernels of the step
    """

    script: str
    gpu: str
    measured: bool
    steps: int
    alike: int
    shown: int
    training: bool
    launches: int
    layers: tuple[Layer, ...]
    memory: PeakMemory
    advice: tuple[StepAdvice, ...]

    @property
    def time(self) -> float:
        return sum(layer.time for layer in self.layers)

    @property
    def floor(self) -> float:
        return sum(layer.floor for layer in self.layers)

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {**asdict(self), "time": self.time, "floor": self.floor}
