"""The interface of a kernel with its grid for check, profile and bench, for all front ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from weft.kernels.launch import Plain


@runtime_checkable
class Configured(Protocol):
    """`k[grid, block]` of CUDA C++ and Numba, `k[grid]` of Triton.

    name     the kernel's name in the source
    threads  threads per block, where the user has chosen them
    """

    @property
    def name(self) -> str: ...

    @property
    def threads(self) -> int | None: ...

    def __call__(self, *args: Any, **options: Any) -> None:
        """Run the grid where the arrays are."""

    def names(self, args: Sequence[Any], options: Mapping[str, Any]) -> list[str]:
        """The arguments' names in the source; ArgumentError for arguments that do not fit."""

    def plain(self, *args: Any, **options: Any) -> Plain:
        """The launch on the simulated GPU, compiled but not run, for arrays in host memory."""
