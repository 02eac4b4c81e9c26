"""What measures ask of a kernel with its grid, whichever front end it is of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from weft.errors import ArgumentError

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

    def names(self, args: Sequence[Any], options: Mapping[str, Any]) -> list[str]:
        """What the arguments are called in the source; ArgumentError for what does not fit."""

    def plain(self, *args: Any, **options: Any) -> Plain:
        """The same on the simulated GPU, compiled but not run, for arrays in host memory."""


def in_order(
    kernel: str, names: Sequence[str], args: Sequence[Any], options: Mapping[str, Any], takes: str
) -> list[str]:
    """`names`, where they are those of `args` and nothing is given by name."""
    if options:
        raise ArgumentError(
            f"{kernel} takes its arguments in order, none by name",
            got=", ".join(f"{name}=" for name in options),
            allowed=takes,
        )
    if len(names) != len(args):
        raise ArgumentError(
            f"{kernel} takes {len(names)} arguments", got=str(len(args)), allowed=takes
        )
    return list(names)
