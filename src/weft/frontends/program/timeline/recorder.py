"""Turns the reports of the runtime library into activities of a timeline.

Launches and copies run when they are called (`weft_block`), so that the reports come in the order
of the calls. The library reports work as it does to the sanitizer (`sanitizer/hooks.py`), and calls
and ranges by `hooks.py`.
"""

from __future__ import annotations

import ctypes
import re
import threading
from bisect import bisect_right, insort
from collections.abc import Callable
from typing import Any

from weft.frontends import activity
from weft.frontends.program.answers import answers
from weft.frontends.program.sanitizer import hooks as work_hooks
from weft.frontends.program.timeline import hooks
from weft.values.time import timeline

_VERSION = re.compile(r"(_v\d+|_ptsz|_ptds)+$")
"""Suffixes of functions, which the headers of CUDA add."""
_GRAPH = re.compile(r"cu(da)?GraphLaunch")
_WAITING_FREES = ("cudaFree", "cuMemFree", "cudaFreeHost", "cudaFreeArray")
"""Calls that wait for all work of the GPU."""
_HAPPENED = {
    work_hooks.CREATED: timeline.CREATED,
    work_hooks.RECORDED: timeline.RECORDED,
    work_hooks.WAITS: timeline.WAITS,
    work_hooks.HOST_WAITS_STREAM: timeline.HOST_WAITS_STREAM,
    work_hooks.HOST_WAITS_EVENT: timeline.HOST_WAITS_EVENT,
    work_hooks.HOST_WAITS_DEVICE: timeline.HOST_WAITS_ALL,
}
"""Reports of the library, and the activities that they are."""


class ProgramTimeline:
    """One program; the library calls the methods that `Hooks` and `Trace` list."""

    def __init__(self, library: ctypes.CDLL, say: Callable[[str], None]) -> None:
        self.library, self.say = library, say
        self._here = threading.local()
        self._streams: dict[int, int] = {}
        self._starts: list[int] = []
        self._memory: dict[int, tuple[int, int]] = {}
        """Start of an allocation -> bytes, kind."""
        self._submitted = 0
        self._lock = threading.RLock()
        tables = (work_hooks.Hooks, hooks.Trace)
        self._tables = [
            table(*(kind(getattr(self, name)) for name, kind in table._fields_)) for table in tables
        ]
        library.weft_watch(ctypes.byref(self._tables[0]))
        library.weft_trace(ctypes.byref(self._tables[1]))

    # ---- calls and ranges -------------------------------------------------------------------
    @answers(0)
    def called(self, name: bytes, enters: int) -> None:
        text = _VERSION.sub("", name.decode())
        self._here.call = text if enters else ""
        activity.note(timeline.CALL if enters else timeline.RETURN, text)

    @answers(0)
    def range(self, what: int, number: int, text: bytes) -> None:
        activity.note(hooks.RANGES[what], text.decode(errors="replace"), number=number)

    @answers(0)
    def node(self, index: int, after: Any, count: int) -> None:
        activity.note(timeline.NODE, number=index, after=list(after[:count]))

    # ---- work -------------------------------------------------------------------------------
    @answers(0)
    def happened(self, what: int, a: int, b: int) -> None:
        if what == work_hooks.HOST_FUNCTION:
            activity.note(timeline.HOST, "host function", self._stream)
        elif what == work_hooks.RECORDED:
            activity.note(timeline.RECORDED, stream=b, number=a)
        elif what == work_hooks.HOST_WAITS_EVENT:
            activity.note(timeline.HOST_WAITS_EVENT, number=a)
        elif what in _HAPPENED:
            activity.note(_HAPPENED[what], stream=a, number=b)

    @property
    def _stream(self) -> int:
        """The stream of the work that this thread runs."""
        return int(getattr(self._here, "stream", 0))

    @answers(0)
    def submitted(self, stream: int) -> int:
        with self._lock:
            self._submitted += 1
            self._streams[self._submitted] = stream
            return self._submitted

    @answers(0)
    def begins(self, number: int) -> None:
        self._here.stream = self._streams.pop(number, 0)
        self._here.graph = bool(_GRAPH.fullmatch(getattr(self._here, "call", "")))
        if self._here.graph:
            activity.note(timeline.GRAPH, "graph", self._stream)

    @answers(0)
    def ends(self, number: int) -> None:
        if getattr(self._here, "graph", False):
            activity.note(timeline.GRAPH_ENDS, "graph", self._stream)
        self._here.stream, self._here.graph = 0, False

    @answers(0)
    def copied(self, copy: Any) -> None:
        c = copy[0]
        nbytes = c.width * c.height * c.depth
        to, source = self._at(c.to.start), self._at(c.source.start)
        if not c.source.start:
            memory = _spans(to)
            activity.note(timeline.FILL, "memset", self._stream, bytes=nbytes, memory=memory)
            return
        if c.to_host:
            direction, device, host = timeline.TO_HOST, source, to
        elif source is not None and source[2] == work_hooks.DEVICE:
            direction, device, host = timeline.ON_DEVICE, to, source
        else:
            direction, device, host = timeline.TO_DEVICE, to, source
        activity.note(
            timeline.COPY, direction, self._stream, bytes=nbytes,
            pageable=host is None and direction != timeline.ON_DEVICE,
            memory=_spans(device, host),
        )  # fmt: skip

    # ---- memory -----------------------------------------------------------------------------
    @answers(0)
    def allocated(self, call: bytes, address: int, nbytes: int, kind: int, device: int) -> None:
        with self._lock:
            if address not in self._memory:
                insort(self._starts, address)
            self._memory[address] = nbytes, kind

    @answers(0)
    def freed(self, call: bytes, address: int, nbytes: int) -> None:
        if call.decode() in _WAITING_FREES:
            activity.note(timeline.HOST_WAITS_ALL)
        with self._lock:
            if self._memory.pop(address, None) is not None:
                self._starts.remove(address)

    def _at(self, address: int) -> tuple[int, int, int] | None:
        """The start, the bytes and the kind of the allocation that holds an address."""
        with self._lock:
            i = bisect_right(self._starts, address) - 1
            if i < 0:
                return None
            start = self._starts[i]
            nbytes, kind = self._memory[start]
            return (start, nbytes, kind) if address < start + nbytes else None

    @answers(0)
    def host_touched(self, address: int, writes: int, instruction: int) -> None:
        """Never called: no memory is guarded."""

    # ---- kernels ----------------------------------------------------------------------------
    def launching(self) -> Any:
        """A context for a launch: it belongs to the stream of this thread's work."""
        return activity.on_stream(self._stream)

    @answers(0)
    def accessed(
        self, call: bytes, source: int, read: int, to: int, written: int, frames: Any, count: int
    ) -> None:
        """Show a call of NCCL as work of its stream."""
        self.computed(call.decode())

    def computed(self, name: str) -> None:
        """Record work that a library does in this thread's stream."""
        activity.note(timeline.COMPUTE, name, self._stream)


def _spans(*allocations: tuple[int, int, int] | None) -> list[tuple[int, int]]:
    """The starts and bytes of allocations that are known."""
    return [(start, nbytes) for start, nbytes, _ in filter(None, allocations)]
