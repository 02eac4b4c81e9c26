"""All launches that the simulator and ncu are compared on, in groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import weft
from profiled import carried, everyday, ladders
from profiled.case import Case

GROUPS: Mapping[str, Sequence[Case]] = {
    "everyday": everyday.CASES,
    "ladders": ladders.cases(),
    "front ends": carried.cases(),
}


@cache
def _module(case: Case) -> Any:
    return (weft.load_ptx if case.file.suffix == ".ptx" else weft.cuda)(case.file)


def launch(case: Case) -> Any:
    """The case's kernel with its grid, for arrays of either GPU."""
    return _module(case).kernel(case.kernel)[case.grid, case.block, case.shared]
