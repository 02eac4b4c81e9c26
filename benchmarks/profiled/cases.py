"""All launches that the simulator and ncu are compared on, in groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from profiled import carried, everyday, hopper, ladders
from profiled.case import Case

GROUPS: Mapping[str, Sequence[Case]] = {
    "everyday": everyday.CASES,
    "ladders": ladders.cases(),
    "front ends": carried.cases(),
    "hopper": hopper.CASES,
}
