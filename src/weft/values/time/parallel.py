"""Values of a model of several GPUs: links, the work of one GPU, and predicted times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Link:
    """A connection between two GPUs.

    name       the preset's name, or the figures as given
    bandwidth  bytes per second in each direction
    latency    seconds until the first byte arrives
    """

    name: str
    bandwidth: float
    latency: float

    def seconds(self, size: float) -> float:
        """The time of a message of `size` bytes."""
        return self.latency + size / self.bandwidth


@dataclass(frozen=True)
class Fabric:
    """The links of `gpus` GPUs: `inside` within a node of `node` GPUs, `between` across nodes."""

    gpus: int
    inside: Link
    between: Link
    node: int

    @property
    def local(self) -> int:
        """The number of GPUs that share a node."""
        return min(self.gpus, self.node)

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return self.gpus // self.local

    def link(self, a: int, b: int) -> Link:
        """The link from GPU `a` to GPU `b`."""
        return self.inside if a // self.local == b // self.local else self.between


@dataclass(frozen=True)
class Attention:
    """One forward call of attention, and its time on one GPU.

    seconds  the time of the whole call
    element  bytes of an element
    source   the origin of the time
    """

    seconds: float
    batch: int
    heads: int
    key_heads: int
    head: int
    length: int
    causal: bool
    element: int
    source: str


@dataclass(frozen=True)
class Step:
    """One training step of a network of equal layers, and its time on one GPU.

    seconds     the time of the step
    forward     the part of it that is the forward pass
    tokens      tokens of a batch
    activation  bytes of an element of an activation
    gradient    bytes of a parameter, and of its gradient
    source      the origin of the time
    """

    seconds: float
    forward: float
    layers: int
    parameters: int
    width: int
    heads: int
    tokens: int
    activation: int
    gradient: int
    source: str


Work = Attention | Step


@dataclass(frozen=True)
class Schedule:
    """Choices of a layout: micro-batches of a pipeline, bytes of a gradient bucket."""

    micro_batches: int = 8
    bucket: float = 25e6


@dataclass(frozen=True)
class Timed:
    """The time of a layout, and the mean over GPUs of computing and of sending, in seconds."""

    seconds: float
    compute: float
    communication: float


_DUST = 1e-9
"""A part of the time that only rounding leaves."""


def rest(whole: float, part: float) -> float:
    """Return the whole without a part; 0 if that is less than rounding leaves."""
    left = whole - part
    return left if left > _DUST * whole else 0.0


@dataclass(frozen=True)
class ParallelRow:
    """The predicted time of one layout on one number of GPUs. Times are in seconds.

    layout         its name: "ring", "data", …
    gpus           the number of GPUs
    work           the recorded works of one GPU that it does: of data parallelism, one per GPU
    seconds        the time of the whole
    compute        the mean time in which a GPU computes
    communication  the mean time in which a GPU sends
    exposed        the part of `seconds` that links without latency and with endless bandwidth save
    idle           the mean time in which a GPU waits although links take no time
    single         the time of one work on one GPU
    simulated      `seconds` by the simulation of the schedule; None without one

    >>> row = weft.predict_parallel("gpt2", layouts="1f1b", gpus=4, micro_batches=9).rows[0]
    >>> print(f"{row.idle / (row.idle + row.compute):.2f}")
    0.25
    """

    layout: str
    gpus: int
    work: float
    seconds: float
    compute: float
    communication: float
    exposed: float
    idle: float
    single: float
    simulated: float | None = None

    @property
    def overlapped(self) -> float:
        """Communication that costs no time, because GPUs compute meanwhile."""
        return rest(self.communication, self.exposed)

    @property
    def speedup(self) -> float:
        """Work per second, compared with one GPU."""
        return self.work * self.single / self.seconds

    @property
    def efficiency(self) -> float:
        """Speed-up per GPU: 1 is perfect."""
        return self.speedup / self.gpus

    def to_dict(self) -> Mapping[str, Any]:
        """The row as JSON-compatible values."""
        names = ("layout", "gpus", "work", "seconds", "compute", "communication", "exposed")
        more = ("overlapped", "idle", "single", "speedup", "efficiency", "simulated")
        return {name: getattr(self, name) for name in (*names, *more)}
