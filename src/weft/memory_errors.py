"""Errors for lack of memory: allocations that fail, and libraries that cannot be loaded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from weft.errors import Error, MissingDependency, OutOfMemory

_MORE_MEMORY = "free memory, or raise the limit of this process: `ulimit -v` shows it"


@contextmanager
def memory_for(what: str) -> Iterator[None]:
    """Raise OutOfMemory where the memory for `what` cannot be allocated."""
    try:
        yield
    except MemoryError as error:
        raise OutOfMemory(
            f"there is not enough memory for {what}", got=str(error), next=_MORE_MEMORY
        ) from error


_NO_ROOM = ("failed to map segment", "annot allocate memory", "out of memory")
"""Messages of the dynamic linker when it cannot allocate memory."""


def unloadable(what: str, error: BaseException, next: str) -> Error:
    """The error for a library that cannot be loaded: lack of memory, or a missing library."""
    chain: list[BaseException] = []
    cause: BaseException | None = error
    # Lack of memory is often wrapped in an ImportError.
    while cause is not None and cause not in chain:
        chain.append(cause)
        cause = cause.__cause__ or cause.__context__
    # The dynamic linker reports lack of memory as a plain ImportError or OSError.
    for each in chain:
        if isinstance(each, MemoryError) or any(words in str(each) for words in _NO_ROOM):
            return OutOfMemory(
                f"there is not enough memory to load {what}",
                got=_first_line(each),
                next=_MORE_MEMORY,
            )
    return MissingDependency(f"{what} cannot be loaded", got=_first_line(error), next=next)


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
