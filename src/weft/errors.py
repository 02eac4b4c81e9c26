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
    ├── CaptureError            a step cannot be captured into a CUDA graph
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
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import traceback


class Error(Exception):
    """The base class of every error of weft.

    what      what is wrong
    where     the place, e.g. file and line
    got       what was given
    allowed   what is allowed
    next      what to do about it

    >>> try:
    ...     weft.cuda("__global__ void k() {}", device="sim:rtx307")
    ... except weft.Error as error:
    ...     print(error.what, error.got, error.next, sep="; ")
    no such device; 'sim:rtx307'; did you mean 'sim:rtx3070'?
    """

    def __init__(
        self, what: str, *, where: str = "", got: str = "", allowed: str = "", next: str = ""
    ) -> None:
        self.what, self.where, self.got, self.allowed, self.next = what, where, got, allowed, next
        super().__init__(self._text())

    def to_dict(self) -> dict[str, str]:
        """The kind of the error and its parts, for JSON."""
        parts = {"what": self.what, "where": self.where, "got": self.got}
        return {"kind": type(self).__name__, **parts, "allowed": self.allowed, "next": self.next}

    # IPython calls this method instead of formatting the traceback itself.
    def _render_traceback_(self) -> list[str]:
        """The traceback in IPython, without frames of weft and IPython."""
        import traceback  # here: no program without an error needs it

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
    """The process cannot allocate the memory that it needs.

    >>> try:
    ...     module.scale[1, 32](x, 10.0, 4)
    ... except weft.OutOfMemory as error:
    ...     print(error.next)
    """


_HIDDEN = (os.path.dirname(__file__) + os.sep, f"{os.sep}IPython{os.sep}")


def _is_internal(frame: traceback.FrameSummary) -> bool:
    """True for frames of weft, of IPython, and of a cell magic."""
    return any(part in frame.filename for part in _HIDDEN) or "run_cell_magic(" in str(frame.line)


class CompileError(Error):
    """The compiler rejects the source. `log` is the compiler's whole output.

    >>> try:
    ...     weft.cuda("__global__ void k(int* x) { x[0] = y; }")
    ... except weft.CompileError as error:
    ...     print(error.log.splitlines()[0])
    kernel.cu(1): error: identifier "y" is undefined
    """

    log: str = ""


class PtxError(Error):
    """PTX text is not well-formed.

    >>> try:
    ...     weft.load_ptx("ret;")
    ... except weft.PtxError as error:
    ...     print(error.got)
    'ret;'
    """


class UnsupportedInstruction(PtxError):
    """The simulated GPU does not implement an instruction.

    >>> loaded = weft.load_ptx('''
    ... .version 8.0
    ... .target sm_80
    ... .address_size 64
    ... .entry k() { fly.u32; ret; }
    ... ''')
    >>> try:
    ...     loaded.k[1, 1]()
    ... except weft.UnsupportedInstruction as error:
    ...     print(error.what.partition(":")[0])
    fly.u32
    """


class LaunchError(Error):
    """A launch is rejected before anything runs.

    >>> try:
    ...     module.scale[1, 2048](x, 10.0, 4)
    ... except weft.LaunchError as error:
    ...     print(error.allowed)
    up to 1024
    """


class ArgumentError(LaunchError):
    """An argument does not fit its parameter.

    >>> try:
    ...     module.scale[1, 32](x, "ten", 4)
    ... except weft.ArgumentError as error:
    ...     print(error.got)
    str
    """


class DeviceError(Error):
    """A kernel fails while it runs.

    kernel, line    the kernel and its source line
    block, thread   the block and the thread that failed

    >>> try:
    ...     module.scale[1, 32](x, 10.0, 1000)
    ... except weft.DeviceError as error:
    ...     print(error.kernel, error.thread)
    scale (4, 0, 0)
    """

    kernel: str = ""
    line: str = ""
    block: tuple[int, int, int] | None = None
    thread: tuple[int, int, int] | None = None


class IllegalAddress(DeviceError):
    """An access is outside every allocation of the launch.

    address   the address
    space     the state space: "global", "shared", "local", …
    access    "read" or "write"

    >>> try:
    ...     module.scale[1, 32](x, 10.0, 1000)
    ... except weft.IllegalAddress as error:
    ...     print(error.space, error.access)
    global read
    """

    address: int = 0
    space: str = ""
    access: str = ""


class MisalignedAddress(IllegalAddress):
    """An address is not a multiple of the size of the access.

    >>> odd = weft.cuda("__global__ void odd(char* x) { *(int*)(x + 1) = 1; }").odd
    >>> try:
    ...     odd[1, 1](np.zeros(16, np.uint8))
    ... except weft.MisalignedAddress as error:
    ...     print(error.kernel)
    odd
    """


class InvalidFree(DeviceError):
    """A kernel frees memory that is not allocated, or that it has freed before.

    >>> again = weft.cuda("__global__ void again() { int* p = new int; delete p; delete p; }").again
    >>> try:
    ...     again[1, 1]()
    ... except weft.InvalidFree as error:
    ...     print(error.kernel)
    again
    """


class AssertFailed(DeviceError):
    """A device `assert` is false.

    >>> k = weft.cuda("#include <cassert>\\n__global__ void k(int n) { assert(n > 0); }").k
    >>> try:
    ...     k[1, 1](-1)
    ... except weft.AssertFailed as error:
    ...     print(error.kernel)
    k
    """


class Trapped(DeviceError):
    """A kernel executes `__trap()`.

    >>> try:
    ...     weft.cuda("__global__ void stop() { __trap(); }").stop[1, 1]()
    ... except weft.Trapped as error:
    ...     print(error.kernel)
    stop
    """


class Deadlock(DeviceError):
    """No warp can make progress. The message names the waiting warps and their source lines.

    awaited   what warps wait for: "barrier", "warp", "lock", "mbarrier", "flag" or "cluster"

    >>> wait = weft.cuda("__global__ void wait(volatile int* flag) { while (!*flag) {} }").wait
    >>> try:
    ...     wait[1, 1](np.zeros(1, np.int32))
    ... except weft.Deadlock as error:
    ...     print(error.kernel, error.awaited)
    wait flag
    """

    awaited: str = ""


class TimeLimit(DeviceError):
    """A launch exceeds its time limit.

    >>> spin = weft.cuda("__global__ void spin(int* x) { for (;;) atomicAdd(x, 1); }").spin
    >>> try:
    ...     spin[1, 1](np.zeros(1, np.int32), time_limit=0.2)
    ... except weft.TimeLimit as error:
    ...     print("stopped")
    stopped
    """


class CaptureError(Error):
    """A step cannot be captured into a CUDA graph. `weft.graph` raises it.

    >>> @weft.graph
    ... def step(x):
    ...     return x if x.sum() > 0 else -x
    >>> try:
    ...     step(torch.ones(3))
    ... except weft.CaptureError as error:
    ...     print(error.got)
    aten::_local_scalar_dense
    """


class CheckFailed(Error):
    """A kernel gives a wrong result.

    trial                   the inputs it failed on
    seed                    repeats the check: `weft.check(..., seed=error.seed)`
    index, value, expected  the worst element, its value and the reference's
    ulps                    the error in units in the last place
    wrong_count             the number of wrong elements
    map                     a picture of the wrong elements
    writer                  the source line that wrote the worst element
    cause, evidence         why it is wrong, where weft can tell
    schedule                the schedule under which it is wrong, if a plain run is right
    repeat                  runs the failed call again, if it can be repeated in this process
    element, place          the worst element as text, its address and its bytes

    >>> try:
    ...     weft.check(module.scale[1, 32], x, 2.0, 3, out=x, reference=lambda x: 2 * x)
    ... except weft.CheckFailed as error:
    ...     print(error.index, error.wrong_count)
    (3,) 1
    """

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
    schedule: str = ""
    repeat: Callable[[], object] | None = None
    element: str = ""
    place: tuple[int, int] = (0, 0)

    def __reduce__(self) -> Any:
        """All but `repeat`, for `pickle`: only this process can run the call again."""
        return type(self), self.args, {**vars(self), "repeat": None}


class SanitizerError(Error):
    """The sanitizer has findings.

    findings   every finding: `weft.sanitizer.Finding`
    summary    what was checked

    >>> try:
    ...     module.scale[1, 32](weft.sanitizer.empty(4), 2.0, 4, sanitize=True)
    ... except weft.SanitizerError as error:
    ...     print([finding.kind for finding in error.findings])
    ['uninitialised']
    """

    findings: tuple[Any, ...] = ()
    summary: str = ""


class MissingDependency(Error):
    """An optional package, or a GPU, is needed and not there.

    >>> try:
    ...     weft.climb("vecadd", to=0)
    ... except weft.MissingDependency as error:
    ...     print(error.next)
    """


class NoCounters(Error):
    """The hardware counters of a real GPU cannot be read: ncu is missing, or the driver forbids it.

    >>> try:
    ...     weft.profile(module.scale[1, 32], x, 1.0, 4)
    ... except weft.NoCounters as error:
    ...     print(error.next)
    """


class CacheError(Error):
    """The cache of compiled code on disk cannot be used. `weft cache` raises it.

    >>> try:
    ...     weft.cuda("__global__ void k() {}")
    ... except weft.CacheError as error:
    ...     print(error.next)
    """


class CompileWarning(UserWarning):
    """The compiler accepts a source and warns about it.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always", weft.CompileWarning)
    ...     unused = weft.cuda("__global__ void k() { int unused; }")
    >>> print(caught[0].category.__name__)
    CompileWarning
    """


class CacheWarning(UserWarning):
    """The cache on disk is not used: other users could change it, or the disk is full.

    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", weft.CacheWarning)
    ...     quiet = weft.cuda("__global__ void k() {}")
    """


def expect(what: str, value: object, *kinds: type, allowed: str) -> None:
    """Raise ArgumentError for an argument of the wrong type, before deeper code fails on it."""
    if not isinstance(value, kinds):
        raise ArgumentError(f"{what} has the wrong type", got=type(value).__name__, allowed=allowed)
