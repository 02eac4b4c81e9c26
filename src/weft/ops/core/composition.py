"""Compose a plan from the plans of other ops, whose tensors are parts of one call's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from weft.ops.core.plan import Buffer, Map, Plan, Pointer, Step


@dataclass
class Composition:
    """The launches and buffers of a call that runs several plans, one after the other.

    count    inputs of the call
    scratch  buffers that plans after each other share, unless they begin as zeros
    """

    count: int
    outputs: tuple[Buffer, ...]
    steps: list[Step] = field(default_factory=list)
    scratch: list[Buffer] = field(default_factory=list)
    _shared: list[int] = field(default_factory=list)

    def output(self, number: int) -> Pointer:
        """The address of an output."""
        return Pointer(self.count + number)

    def buffer(self, made: Buffer) -> Pointer:
        """The address of a new scratch buffer, which no other plan uses."""
        self.scratch.append(made)
        return Pointer(self.count + len(self.outputs) + len(self.scratch) - 1)

    def run(self, plan: Plan, inputs: Sequence[Pointer | None], outputs: Sequence[Pointer]) -> None:
        """Add the launches of a plan, with addresses for its inputs and outputs."""
        places = [*inputs, *outputs, *self._places(plan.scratch)]
        for step in plan.steps:
            args = tuple(_moved(argument, places) for argument in step.args)
            self.steps.append(replace(step, args=args))

    def plan(self) -> Plan:
        return Plan(tuple(self.steps), self.outputs, tuple(self.scratch))

    def _places(self, wanted: Sequence[Buffer]) -> list[Pointer]:
        """Buffers for the scratch of a plan: those of plans before it, which have ended."""
        free, places = list(self._shared), []
        for buffer in wanted:
            first = self.count + len(self.outputs)
            same = (n for n in free if self.scratch[n - first] == buffer and not buffer.zeroed)
            number = next(same, None)
            if number is None:
                number = self.buffer(buffer).number
                self._shared.append(number)
            else:
                free.remove(number)
            places.append(Pointer(number))
        return places


def _moved(argument: Any, places: Sequence[Pointer | None]) -> Any:
    """An argument of a plan's kernel as one of the composition's."""
    if isinstance(argument, Map):
        moved = _moved(argument.pointer, places)
        assert moved is not None
        return argument._replace(pointer=moved)
    if not isinstance(argument, Pointer):
        return argument
    place = places[argument.number]
    return place and Pointer(place.number, place.offset + argument.offset)
