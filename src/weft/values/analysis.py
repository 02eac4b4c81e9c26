"""Values that are derived from a profile: sections, roofline, advice, occupancy, differences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from weft.values.profile import Profile
from weft.values.time.prediction import Prediction

Dims = tuple[int, int, int]


@dataclass(frozen=True)
class Metric:
    """A number with its unit (`%`, `byte`, `s` or none), or a text."""

    id: str
    label: str
    value: float | str
    unit: str = ""
    modelled: bool = False


@dataclass(frozen=True)
class Section:
    """One section of a profile, named and ordered as in Nsight Compute.

    name      its name
    metrics   its numbers, with labels and units
    says      a sentence about them

    >>> print(p.sections[0].name)
    GPU Speed Of Light Throughput
    """

    name: str
    metrics: tuple[Metric, ...]
    says: str = ""


@dataclass(frozen=True)
class Level:
    """One memory level: the bytes moved, and the rate that it allows."""

    name: str
    bytes: float
    bandwidth: float
    intensity: float
    allows: float
    modelled: bool


@dataclass(frozen=True)
class Roofline:
    """Arithmetic intensity at each level of memory, and what bounds the launch.

    kind           "floating-point" or "integer": the operations that are counted
    operations     how many of them
    peak           operations a second that the units reach in the launch's mix
    uses           these units
    levels         bytes, intensity and bandwidth of each level of memory
    ceilings       peaks of these and other units, in operations a second
    bound          the unit that is busy longest, or "latency"; `bound_seconds` is how long
    compulsory     bytes that must be moved whatever the caches do
    floor          the least seconds: of computing at the peak and moving the compulsory bytes, the
                   larger one

    >>> print(p.roofline.kind, p.roofline.compulsory)
    floating-point 32
    """

    kind: str
    operations: float
    peak: float
    uses: tuple[str, ...]
    levels: tuple[Level, ...]
    ceilings: tuple[tuple[str, float], ...]
    bound: str
    bound_seconds: float
    compulsory: int
    floor: float


@dataclass(frozen=True)
class Advice:
    """One change that can make a kernel faster. `Profile.advice` has them, largest gain first.

    rule         the name of the rule
    evidence     what was counted
    change       what to change
    gain         the largest possible speed-up, as a factor
    file, line   the source line, where it is one
    filled       whether the gain is that of a grid that fills the GPU: this one is bound by latency

    >>> strided = weft.cuda('''
    ... __global__ void strided(float* x) { x[32 * (blockIdx.x * blockDim.x + threadIdx.x)] += 1; }
    ... ''').strided
    >>> first = weft.profile(strided[512, 256], np.zeros(2**22, np.float32)).advice[0]
    >>> print(first.rule)
    coalescing
    """

    rule: str
    evidence: str
    change: str
    gain: float
    file: str = ""
    line: int = 0
    filled: bool = False

    @property
    def limit(self) -> str:
        """The gain in words."""
        return f"at most {self.gain:.3g}x{' in a grid that fills the GPU' if self.filled else ''}"

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}  " if self.line else ""
        return f"{self.rule} ({self.limit})\n  {where}{self.evidence}\n  {self.change}"


@dataclass(frozen=True)
class Curve:
    """Resident warps of an SM against one resource; `now` is the launch's value."""

    resource: str
    now: int
    points: tuple[tuple[int, int, int], ...]
    """(value, blocks, warps)"""


@dataclass(frozen=True)
class KernelCounters:
    """ncu's counters for the launches of one kernel with one shape."""

    kernel: str
    grid: Dims
    block: Dims
    sections: tuple[Section, ...]
    launches: int = 1


@dataclass(frozen=True)
class Change:
    """One value before and after; None if it is missing."""

    what: str
    before: float | None
    after: float | None
    unit: str = ""

    @property
    def ratio(self) -> float | None:
        return self.after / self.before if self.before and self.after is not None else None


@dataclass(frozen=True)
class LineChange:
    """One source line before and after, and its changed counters."""

    file: str
    quote: str
    before: int | None
    after: int | None
    counters: tuple[Change, ...]


@dataclass(frozen=True)
class Differences:
    """Two launches by name, and the metrics and source lines in which their profiles differ."""

    names: tuple[str, str]
    sections: tuple[tuple[str, tuple[Change, ...]], ...]
    lines: tuple[LineChange, ...]

    def to_dict(self) -> dict[str, object]:
        """The differences as a dict, for JSON."""
        return {
            "before": self.names[0],
            "after": self.names[1],
            "sections": {name: [vars(row) for row in rows] for name, rows in self.sections},
            "lines": [
                {**vars(line), "counters": [vars(row) for row in line.counters]}
                for line in self.lines
            ],
        }


@dataclass(frozen=True)
class Launched:
    """Launches of one kernel and shape: counters of ncu and of the simulator, or None."""

    ncu: KernelCounters | None
    sim: AnalysedProfile | None


_OF_PTX: Mapping[str, str] = {
    "smsp__inst_executed.sum": "sim:ptx__inst_executed.sum",
    **{
        f"smsp__sass_branch_targets{what}.sum": f"sim:ptx__branch_targets{what}.sum"
        for what in ("", "_threads_divergent")
    },
}
"""Metrics that ncu counts in SASS and the simulator in PTX."""


def simulated_counterpart(metric: Metric, simulated: Mapping[str, Metric]) -> Metric | None:
    """Return the simulator's metric for one of ncu's; `simulated` is keyed by id."""
    return simulated.get(f"sim:{metric.id}") or simulated.get(_OF_PTX.get(metric.id, ""))


class Gpu(Protocol):
    """The model of a GPU, as far as reports show it."""

    @property
    def name(self) -> str: ...

    @property
    def max_warps_per_sm(self) -> int: ...


class AnalysedProfile(Profile):
    """A profile with its analyses, which the stage that profiles computes on first use."""

    @property
    def model(self) -> Gpu:
        """The GPU model whose caches, limits and ceilings apply."""
        raise NotImplementedError

    @property
    def sections(self) -> tuple[Section, ...]:
        """The metrics in sections, with ncu's names."""
        raise NotImplementedError

    @property
    def roofline(self) -> Roofline:
        """Arithmetic intensity at each memory level, the bound and the floor."""
        raise NotImplementedError

    @property
    def advice(self) -> tuple[Advice, ...]:
        """Suggested changes, the largest possible gain first."""
        raise NotImplementedError

    @property
    def curves(self) -> tuple[Curve, ...]:
        """Occupancy against registers, shared memory and block size."""
        raise NotImplementedError

    @property
    def predicted(self) -> Prediction:
        """The predicted time of one launch: seconds, bound, stalls by line."""
        raise NotImplementedError
