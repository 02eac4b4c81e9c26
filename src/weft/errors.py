"""Defines all exceptions of weft, as one tree.

    Error
    ├── CompileError            the CUDA C++ compiler refused the source
    ├── PtxError                PTX text that is not well formed
    │   └── UnsupportedInstruction
    ├── LaunchError             a launch that is refused before anything runs
    │   └── ArgumentError       one argument does not fit its parameter
    ├── DeviceError             something went wrong while a kernel ran
    │   ├── IllegalAddress
    │   │   └── MisalignedAddress
    │   ├── InvalidFree         a free of device memory that is not allocated
    │   ├── AssertFailed
    │   ├── Trapped
    │   ├── Deadlock
    │   └── TimeLimit
    ├── CheckFailed             a kernel is not right
    ├── SanitizerError          the sanitizer has findings
    ├── MissingDependency       an optional package or library is not installed
    ├── OutOfMemory             the host has not enough memory
    ├── NoCounters              the hardware counters of a GPU cannot be read
    └── CacheError

    CacheWarning                a Python warning: the cache cannot be used
    CompileWarning              a Python warning: a compiler warning of NVRTC

An error has the parts what, where, got, allowed and next; each part is also an attribute.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

DISTRIBUTION = "weft-gpu"
"""The name on PyPI, where `weft` belongs to another project."""


def pip_install(extra: str) -> str:
    """The command that installs an optional part of weft."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


class Error(Exception):
    """The base class of all errors that weft raises deliberately."""

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

    # IPython calls this method instead of formatting the traceback itself.
    def _render_traceback_(self) -> list[str]:
        """The traceback in IPython, without frames of weft and IPython."""
        shown = [f for f in traceback.extract_tb(self.__traceback__) if not _is_internal(f)]
        # Internal subclasses are shown under the name of their documented base class.
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
    """An allocation on the host failed."""


_HIDDEN = (os.path.dirname(__file__) + os.sep, f"{os.sep}IPython{os.sep}")


def _is_internal(frame: traceback.FrameSummary) -> bool:
    """True for frames of weft, of IPython, and of a cell magic."""
    return any(part in frame.filename for part in _HIDDEN) or "run_cell_magic(" in str(frame.line)


class CompileError(Error):
    """The compiler rejected the source; `log` has its full output."""

    log: str = ""


class PtxError(Error):
    """PTX text that cannot be parsed."""


class UnsupportedInstruction(PtxError):
    """An instruction that no row of the instruction table covers."""


class LaunchError(Error):
    """A launch that is rejected before it runs."""


class ArgumentError(LaunchError):
    """An argument that does not fit its kernel parameter."""


class DeviceError(Error):
    """A kernel failed; names the kernel, block, thread and source line."""

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
    """A free of memory that is not allocated, or that was freed before."""


class AssertFailed(DeviceError):
    """A device `assert` was false."""


class Trapped(DeviceError):
    """The kernel executed `__trap()`."""


class Deadlock(DeviceError):
    """No warp can make progress; lists the waiting warps and their source lines."""


class TimeLimit(DeviceError):
    """The launch exceeded its time limit."""


class CheckFailed(Error):
    """A kernel is wrong: the worst element, its writer, and the likely cause if it is known."""

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
    """The sanitizer has findings; `findings` lists them, `summary` counts the checks."""

    findings: tuple[Any, ...] = ()
    summary: str = ""


class MissingDependency(Error):
    """An optional package or library is missing."""


class NoCounters(Error):
    """ncu is missing, or the driver does not permit hardware counters."""


class CacheError(Error):
    """The on-disk cache cannot be used."""


class CompileWarning(UserWarning):
    """The compiler accepted a source with warnings."""


class CacheWarning(UserWarning):
    """The on-disk cache is not used: other users could modify it, or the disk is full."""


def expect(what: str, value: object, *kinds: type, allowed: str) -> None:
    """Raises ArgumentError for an argument of the wrong type, before deeper code fails on it."""
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
