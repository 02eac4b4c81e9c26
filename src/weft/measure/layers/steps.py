"""Finds the steps of a script: they begin where a model is called again.

A script that trains begins a step at the first forward pass after an optimizer; a step may have
several forward passes then (gradient accumulation, two networks). Other scripts begin one at each
forward pass of a module that the step has called already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.values.model import FORWARD, OPTIMIZER, Call, ScriptEvent


@dataclass(frozen=True)
class ScriptStep:
    """The calls of one step; `number` counts from 1."""

    number: int
    calls: tuple[Call, ...]
    training: bool = False

    @property
    def time(self) -> float:
        return sum(c.time for c in self.calls)

    @property
    def kind(self) -> tuple[tuple[str, str, str], ...]:
        """Equal for steps that do the same; what scripts print now and then does not count."""
        return tuple(
            (c.operation or c.name, c.place.module, c.phase)
            for c in self.calls
            if c.place.module or c.phase != FORWARD
        )


def steps(calls: Sequence[Call], events: Sequence[ScriptEvent]) -> list[ScriptStep]:
    """The steps of a script; calls before its first forward pass are in none."""
    number_at = _numbers(events)
    members: dict[int, list[Call]] = {}
    for call in calls:
        number = number_at[min(call.moment, len(events))]
        if number:
            members.setdefault(number, []).append(call)
    trained = {n for n, e in zip(number_at[1:], events, strict=True) if e.kind == OPTIMIZER}
    return [ScriptStep(n, tuple(of), n in trained) for n, of in sorted(members.items())]


def _numbers(events: Sequence[ScriptEvent]) -> list[int]:
    """The step after each number of events: 0 before the first."""
    trains = any(e.kind == OPTIMIZER for e in events)
    # Losses and activations are modules too, and may be called several times in a step.
    weighted = any(e.parameters for e in events)
    out, number, stepped = [0], 0, True
    called: set[str] = set()
    for event in events:
        if event.kind == OPTIMIZER:
            stepped = True
        elif event.kind == FORWARD and (event.parameters or not weighted):
            again = event.name in called or not number
            if again and (stepped or not trains):
                number, stepped, called = number + 1, False, set()
            called.add(event.name)
        out.append(number)
    return out


def choose(found: Sequence[ScriptStep]) -> tuple[ScriptStep, int]:
    """The step to show, and the number of steps that do the same.

    The kind of step with the most time in all is chosen, and of its steps the one with the median
    time: the first often compiles or fills caches.
    """
    kinds: dict[object, list[ScriptStep]] = {}
    for one in found:
        kinds.setdefault(one.kind, []).append(one)
    most = max(kinds.values(), key=lambda of: sum(one.time for one in of))
    by_time = sorted(most, key=lambda one: one.time)
    return by_time[(len(by_time) - 1) // 2], len(most)
