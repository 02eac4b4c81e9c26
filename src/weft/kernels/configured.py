"""What measures ask of a kernel with its grid, whichever front end it is of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from weft.kernels.launch import Launch

Plain = tuple["Launch", Sequence[Any]]
"""A launch as the devices know it, and everything it takes: what a user gave may be less."""


@runtime_checkable
class Configured(Protocol):
    """`k[grid, block]` of CUDA C++ and Numba, `k[grid]` of Triton.

    name     the kernel's, as its source has it
    threads  of a block, where the user has chosen them
    """

    @property
    def name(self) -> str: ...

    @property
    def threads(self) -> int | None: ...

    def __call__(self, *args: Any, **options: Any) -> None:
        """Runs the grid where the arrays are."""

    def names(self, args: Sequence[Any]) -> list[str]:
        """What the arguments are called in the source; ArgumentError where their number is off."""

    def plain(self, *args: Any, **options: Any) -> Plain:
        """The same on the simulated GPU, compiled but not run, for arrays in host memory."""
