"""Every error weft raises, as one tree.

    Error
    ├── CompileError            the CUDA C++ compiler refused the source
    ├── PtxError                PTX text that is not well formed
    │   └── UnsupportedInstruction
    ├── LaunchError             a launch that is refused before anything runs
    │   └── ArgumentError       one argument does not fit its parameter
    ├── DeviceError             something went wrong while a kernel ran
    │   ├── IllegalAddress
    │   │   └── MisalignedAddress
    │   ├── InvalidFree         device memory is freed that is not allocated
    │   ├── AssertFailed
    │   ├── Trapped
    │   ├── Deadlock
    │   └── TimeLimit
    ├── CheckFailed             a kernel is not right
    ├── SanitizerError          the sanitizer has findings
    ├── MissingDependency       an optional package or library is not there
    ├── OutOfMemory             there is not enough memory to go on
    ├── NoCounters              the counters of a real GPU cannot be read here
    └── CacheError

    CacheWarning                a Python warning: the cache cannot be used
    CompileWarning              a Python warning: what NVRTC warns of in a source

An error says what, where, got, allowed, next; each part is also a field.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

DISTRIBUTION = "weft-gpu"
"""What pip installs; on PyPI the name `weft` belongs to another project."""


def pip_install(extra: str) -> str:
    """The command that installs what an optional part of weft needs."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


class Error(Exception):
    """The root of every error that weft raises on purpose."""

    def __init__(
        self,
        what: str,
        *,
        where: str = "",
        got: str = "",
        allowed: str = "",
        next: str = "",
    ) -> None:
        self.what, self.where, self.got, self.allowed, self.next = what, where, got, allowed, next
        super().__init__(self._text())

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: the user's own lines, and nothing of weft's or its own."""
        shown = [f for f in traceback.extract_tb(self.__traceback__) if not _is_internal(f)]
        public = next(c.__name__ for c in type(self).__mro__ if not c.__name__.startswith("_"))
        notes = getattr(self, "__notes__", [])
        return [*traceback.format_list(shown), f"weft.{public}: {self}", *notes]

    def _text(self) -> str:
        lines = [f"{self.where}: {self.what}" if self.where else self.what]
        for label, part in (("got", self.got), ("allowed", self.allowed), ("next", self.next)):
            if part:
                lines.append(f"  {label}: {part}")
        return "\n".join(lines)


class OutOfMemory(Error):
    """This process may not have the memory that it needs."""


_HIDDEN = (os.path.dirname(__file__) + os.sep, f"{os.sep}IPython{os.sep}")


def _is_internal(frame: traceback.FrameSummary) -> bool:
    """Is this weft's code, IPython's, or the call that a cell magic becomes?"""
    return any(part in frame.filename for part in _HIDDEN) or "run_cell_magic(" in str(frame.line)


class CompileError(Error):
    """The compiler refused the source; `log` holds its whole output."""

    log: str = ""


class PtxError(Error):
    """PTX text that cannot be understood."""


class UnsupportedInstruction(PtxError):
    """An instruction that no row of the instruction table covers."""


class LaunchError(Error):
    """A launch that is refused before anything runs."""


class ArgumentError(LaunchError):
    """An argument that does not fit its kernel parameter."""


class DeviceError(Error):
    """A failure while a kernel ran; says which kernel, block, thread and source line."""

    kernel: str = ""
    line: str = ""
    block: tuple[int, int, int] | None = None
    thread: tuple[int, int, int] | None = None


class IllegalAddress(DeviceError):
    """An access outside every allocation the launch may touch."""

    address: int = 0
    space: str = ""
    access: str = ""


class MisalignedAddress(IllegalAddress):
    """An access whose address is not a multiple of its size."""


class InvalidFree(DeviceError):
    """A free of what is not allocated, or not any more."""


class AssertFailed(DeviceError):
    """A device `assert` was false."""


class Trapped(DeviceError):
    """The kernel executed `__trap()`."""


class Deadlock(DeviceError):
    """No warp can go on; names the waiting warps and their source lines."""


class TimeLimit(DeviceError):
    """The launch ran past the time limit it was given."""


class CheckFailed(Error):
    """A kernel that is not right: the worst element, who wrote it, and why, where it is known."""

    trial: str = ""
    seed: int = 0
    index: tuple[int, ...] = ()
    value: float = 0.0
    expected: float = 0.0
    ulps: float = 0.0
    wrong_count: int = 0
    map: str = ""
    writer: str = ""
    cause: str = ""
    evidence: str = ""


class SanitizerError(Error):
    """What the sanitizer found; `findings` has them all, `summary` counts what was checked."""

    findings: tuple[Any, ...] = ()
    summary: str = ""


class MissingDependency(Error):
    """An optional package or library is needed and not there."""


class NoCounters(Error):
    """ncu is not there, or the driver does not let it count."""


class CacheError(Error):
    """The on-disk cache cannot be used."""


class CompileWarning(UserWarning):
    """The compiler accepted a source, but warns of something in it."""


class CacheWarning(UserWarning):
    """The on-disk cache is not used: other users could change it, or the disk is full."""


def expect(what: str, value: object, *kinds: type, allowed: str) -> None:
    """Raises ArgumentError for an argument of another type, before something far away does."""
    if not isinstance(value, kinds):
        raise ArgumentError(f"{what} has the wrong type", got=type(value).__name__, allowed=allowed)


_MORE_MEMORY = "free memory, or raise the limit of this process: `ulimit -v` shows it"


@contextmanager
def memory_for(what: str) -> Iterator[None]:
    """Raises OutOfMemory where the memory for `what` cannot be allocated."""
    try:
        yield
    except MemoryError as error:
        raise OutOfMemory(
            f"there is not enough memory for {what}", got=str(error), next=_MORE_MEMORY
        ) from error


_NO_ROOM = ("failed to map segment", "annot allocate memory", "out of memory")
"""What the dynamic linker says where the memory for a library is not to be had."""


def unloadable(what: str, error: BaseException, next: str) -> Error:
    """Why a library cannot be loaded: for lack of memory, or because it is not there."""
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in chain:
        chain.append(cause)
        cause = cause.__cause__ or cause.__context__
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
