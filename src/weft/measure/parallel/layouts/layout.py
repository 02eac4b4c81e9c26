"""The interface of a layout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from weft.values.time.parallel import Attention, Fabric, Schedule, Step, Timed

W = TypeVar("W", Attention, Step)


class Divided(NamedTuple):
    """A number that GPUs divide evenly, with its name; each GPU has `parts` parts of it."""

    number: int
    name: str
    parts: int = 1


@dataclass(frozen=True)
class Layout(Generic[W]):
    """A way to divide a work among GPUs.

    kind     the type of the work
    timed    the formula
    divided  the numbers that GPUs divide evenly
    work     the works of one GPU that the whole does
    """

    kind: type[W]
    timed: Callable[[W, Fabric, Schedule], Timed]
    divided: Callable[[W], tuple[Divided, ...]] = lambda work: ()
    work: Callable[[int, Schedule], float] = lambda gpus, schedule: 1.0

    def refusal(self, work: W, gpus: int) -> str:
        """The reason why a work cannot be divided among GPUs; "" if it can."""
        wrong = next((d for d in self.divided(work) if d.number % (gpus * d.parts)), None)
        if wrong is None:
            return ""
        ways = "over the GPUs" if wrong.parts == 1 else f"into {wrong.parts} parts for each GPU"
        return f"{wrong.number:,} {wrong.name} cannot be split evenly {ways}"
