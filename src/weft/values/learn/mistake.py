"""A mistake in an answer to an exercise, in plain words."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class WrongElement:
    """A wrong element of a result, e.g. y[3], its value and the right one."""

    element: str
    got: float
    expected: float


@dataclass(frozen=True)
class Mistake:
    """An explanation of a failed answer; it leads to the solution and does not show it.

    name       the kind of the mistake, e.g. "missing barrier"; "" if the answer passes
    happened   what was observed
    elements   the first wrong elements
    where      the threads and source lines
    cause      the likely cause
    question   a question that leads on
    """

    exercise: str
    stage: str
    name: str
    happened: str
    elements: tuple[WrongElement, ...]
    where: tuple[str, ...]
    cause: str
    question: str

    def to_dict(self) -> dict[str, Any]:
        """The explanation, for JSON. Numbers that JSON lacks are strings: "nan", "inf"."""
        shown = [
            {"element": e.element, "got": _number(e.got), "expected": _number(e.expected)}
            for e in self.elements
        ]
        return {**asdict(self), "elements": shown}


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
