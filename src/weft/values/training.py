"""The results of trainings, and of the versions of a training step."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

WITHIN = 1e-3
"""The largest difference that is right: of a loss, and of a weight."""


@dataclass(frozen=True)
class PartTimes:
    """Seconds of each part of a step, and how they were measured."""

    parts: dict[str, float]
    how: str

    @property
    def total(self) -> float:
        return sum(self.parts.values())


@dataclass
class History:
    """The course of a training.

    losses      after each step
    accuracy    on the test images, after each epoch
    seconds     of each epoch's steps, without the evaluation
    first       seconds of the first step, in which kernels are compiled
    stopped     True if the user stopped it
    times       of the parts of a step, if they were measured
    validation  losses on text that is not trained on
    """

    name: str
    losses: list[float] = field(default_factory=list)
    accuracy: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    first: float = 0.0
    stopped: bool = False
    times: PartTimes | None = None
    validation: list[float] = field(default_factory=list)

    @property
    def per_step(self) -> float:
        """Seconds of a step, without the first one; 0 if there is no other."""
        later = len(self.losses) - 1
        return (sum(self.seconds) - self.first) / later if later > 0 and self.seconds else 0.0

    def to_dict(self) -> dict[str, Any]:
        """The history for JSON."""
        return {**asdict(self), "per_step": self.per_step}


@dataclass(frozen=True)
class Reached:
    """The results of one version of a training step.

    apart  the largest differences to the version before: of losses, and of weights
    """

    title: str
    idea: str
    losses: list[float]
    apart: tuple[float, float]
    times: PartTimes

    @property
    def right(self) -> bool:
        return max(self.apart) <= WITHIN

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "right": self.right}


@dataclass(frozen=True)
class Versions:
    """The versions of a training step, each checked against the one before.

    about      what they compute
    on         the machine
    simulated  whether it is the simulated GPU, whose times compare nothing
    """

    ladder: str
    about: str
    batch: int
    on: str
    simulated: bool
    reached: tuple[Reached, ...]

    @property
    def right(self) -> bool:
        """True if every version gives the results of the one before."""
        return all(one.right for one in self.reached)

    def to_dict(self) -> dict[str, Any]:
        """The results as a dict, for JSON."""
        head = {"ladder": self.ladder, "batch": self.batch, "on": self.on}
        return {**head, "versions": [one.to_dict() for one in self.reached]}
