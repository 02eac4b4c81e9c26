"""The kernel and the arguments of a case, for either GPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import weft
from profiled.case import Array, Boxes, Case

ARCH = {"hopper.cu": "sm_90a"}
"""Files that are compiled for one architecture."""


@cache
def _module(case: Case) -> Any:
    if case.file.suffix == ".ptx":
        return weft.load_ptx(case.file)
    return weft.cuda(case.file, arch=ARCH.get(case.file.name))


def launch(case: Case) -> Any:
    """The case's kernel with its grid, for arrays of either GPU."""
    kernel = _module(case).kernel(case.kernel)
    return kernel[case.grid, case.block, case.shared, None, case.cluster]


def arguments(case: Case, place: Callable[[Array], Any]) -> list[Any]:
    """The case's arguments, its arrays where `place` puts them."""

    def one(given: Any) -> Any:
        if isinstance(given, Boxes):
            return weft.tensor_map(place(given.array), given.box, swizzle=given.swizzle)
        return place(given) if hasattr(given, "shape") and given.shape else given

    return [one(given) for given in case.make()]
