"""Launches under a schedule.

Code for schedules is slower than plain code. Of a large grid whose blocks do not wait for each
other, only some blocks run in it; the others run in plain code, before or after them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from weft.device.base import Allocation
from weft.device.sim.code_info import CodeInfo
from weft.device.sim.schedules import Schedule

Inputs = tuple[bytes, Sequence[Allocation], object]
"""Parameters, memory, and what owns the memory."""


class Compiled(Protocol):
    """The code of a plan."""

    @property
    def info(self) -> CodeInfo: ...


class Plan(Protocol):
    """A `LaunchPlan`: a kernel and a grid."""

    total: int
    observer: Any

    @property
    def code(self) -> Compiled: ...
    @property
    def is_served(self) -> bool: ...
    @property
    def run_blocks(self) -> Callable[..., None]: ...
    def under_schedules(self) -> Plan: ...
    def ready(self, time_limit: float | None) -> float | None: ...


def run(plan: Plan, schedule: Schedule, inputs: Inputs, time_limit: float | None) -> None:
    """Run the grid of a plain plan under a schedule."""
    scheduled = plan.under_schedules()
    time_limit = scheduled.ready(time_limit)
    chosen = schedule.stretch(plan.total, scheduled.code.info.warps)
    if len(chosen) == plan.total or not _can_be_split(scheduled):
        scheduled.run_blocks(*inputs, time_limit, schedule)
        return

    def others() -> None:
        for blocks in (range(chosen.start), range(chosen.stop, plan.total)):
            if blocks:
                plan.run_blocks(*inputs, time_limit, blocks=blocks)

    if schedule.others_first:
        others()
    scheduled.run_blocks(*inputs, time_limit, schedule, chosen)
    if not schedule.others_first:
        others()


def _can_be_split(plan: Plan) -> bool:
    """Return whether the blocks of a grid can be run in several parts."""
    info = plan.code.info
    together = info.waits or info.clusters or info.grid_barrier
    # Services of the host and observers are for whole launches.
    return not (together or plan.is_served or plan.observer is not None)
