"""Host services for running kernels: printf, assert, malloc, free, and the device runtime.

Compiled code calls `Services.address` (see `host_calls` for the signature), from whatever thread
runs it. A service that fails ends the launch: the exception is stored in `failed`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

import numpy as np
from numpy.typing import NDArray

from weft.device.sim.layout import ContextFields, Fault, Site, SlotFields, WorkerFields
from weft.device.sim.run.device_runtime import Descendants, DeviceRuntime, Item, Owner
from weft.device.sim.run.heap import Heap
from weft.device.sim.run.printf import VARIABLE, PrintfArguments, render
from weft.errors import AssertFailed, DeviceError, IllegalAddress
from weft.ptx.services import NOT_A_FUNCTION, NUMBERS, STACK_BYTES, STACK_FULL

if TYPE_CHECKING:
    from weft.device.base import Dim3
    from weft.device.sim.printing_threads import Line
    from weft.device.sim.run.arena import Arena

HEAP_BYTES = 8 << 20
"""For device malloc, as CUDA's own default."""

_SIGNATURE = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p,
    ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p,
)  # fmt: skip
STRING_BYTES = 1 << 20
"""The limit on a string without a precision: CUDA's own print buffer holds no more."""

_strnlen = ctypes.CDLL(None).strnlen
_strnlen.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_strnlen.restype = ctypes.c_size_t
_NAMES = {number: name for name, number in NUMBERS.items()}


@dataclass(slots=True)
class RunningLaunch:
    """A launch that is under way."""

    arena: Arena
    block: Dim3
    table: NDArray[np.int64]
    count: int
    rows: dict[int, int] = field(default_factory=dict)
    unused: list[int] = field(default_factory=list)
    failed: BaseException | None = None
    descendants: Descendants = field(default_factory=Descendants)
    printed: list[Line] = field(default_factory=list)

    def add(self, address: int, size: int) -> None:
        """Let compiled code access these bytes; the size comes last: others read at any time."""
        row = self.unused.pop() if self.unused else self.count
        self.table[row] = (address, 0, 1, 0)
        self.table[row, 1] = size
        self.rows[address] = row
        if row == self.count:
            self.count += 1
            self.arena.context[ContextFields.TABLE_COUNT // 8] = self.count

    def windows(self, slot: int) -> list[tuple[int, int]]:
        """(address, bytes) of shared memory and of the parameters."""
        shared = (ctypes.c_int64 * 2).from_address(slot + SlotFields.SHARED)
        context = self.arena.context
        params, size = (
            int(context[x // 8]) for x in (ContextFields.PARAMS, ContextFields.PARAM_BYTES)
        )
        return [(shared[0], shared[1]), (params, size)]

    def remove(self, address: int) -> None:
        """Revoke the access; accesses that have cached the place look it up again."""
        row = self.rows.pop(address)
        self.table[row, 1] = 0
        self.unused.append(row)
        for worker in self.arena.workers:
            # In a window of size 0 no address is inside.
            worker.sites[Site.STARTS // 8 :: Site.SIZE // 8] = 0


@dataclass(frozen=True, slots=True)
class Caller:
    """One lane that calls a service; `windows` is memory that its warp may touch.

    `site` is the calling instruction, where an observer has recorded it.
    """

    launch: RunningLaunch
    slot: int
    thread: int
    local: tuple[int, int]
    values: list[int]
    windows: list[tuple[int, int]]
    site: int

    def window(self, address: int) -> int:
        """The number of bytes from `address` on that belong to the kernel; 0 for none."""
        for start, size in (self.local, *self.windows):
            if start <= address < start + size:
                return start + size - address
        table = self.launch.table[: self.launch.count]
        found = table[(table[:, 0] <= address) & (address < table[:, 0] + table[:, 1])]
        if not len(found):
            return 0
        self.windows.append((int(found[0, 0]), int(found[0, 1])))
        return sum(self.windows[-1]) - address

    def read(self, address: int, size: int) -> bytes:
        """Bytes of the kernel's memory."""
        if self.window(address) < size:
            raise _illegal(f"a service read {size} bytes that are not the kernel's", address)
        return ctypes.string_at(address, size)

    def string(self, address: int, limit: int | None = None) -> bytes:
        """A C string of the kernel's memory, of at most `limit` bytes."""
        room = self.window(address)
        if room == 0:
            raise _illegal("a string is not in the kernel's memory", address)
        bound = min(room, STRING_BYTES + 1 if limit is None else limit)
        size = int(_strnlen(address, bound))
        if size == bound == room != limit:
            raise _illegal("a string does not end inside its memory", address)
        if size == bound != limit:
            raise DeviceError(
                "a string of the kernel is too long",
                got=f"more than {STRING_BYTES} bytes",
                allowed=f"up to {STRING_BYTES} bytes",
                next="print a part of it: a precision limits a string, as in %.80s",
            )
        return ctypes.string_at(address, size)

    def text(self, address: int) -> str:
        return self.string(address).decode(errors="replace")

    @property
    def place(self) -> str:
        """Block and thread, for messages."""
        block, thread = self.coordinates
        return f"block {block}, thread {thread}"

    @property
    def coordinates(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The indices of the block and of the thread."""
        at = (ctypes.c_int32 * 3).from_address(self.slot + SlotFields.BLOCK_X)
        x, y, _ = self.launch.block
        n = self.thread
        return tuple(at), (n % x, n // x % y, n // (x * y))


MEMORY = "arrays of this launch, the module's variables, shared and local memory"


def _illegal(what: str, address: int, allowed: str = MEMORY) -> IllegalAddress:
    error = IllegalAddress(what, got=f"address {address & (2**64 - 1):#x}", allowed=allowed)
    error.address = address & (2**64 - 1)
    return error


class Services:
    """The services of one loaded module; its launches may overlap."""

    def __init__(self, module: Owner, heap_bytes: int = HEAP_BYTES) -> None:
        self.stdout: TextIO | None = None
        self.heap = Heap(heap_bytes)
        self._callback = _SIGNATURE(self._serve)
        self.address = ctypes.cast(self._callback, ctypes.c_void_p).value or 0
        self._lock = threading.RLock()
        self._launches: dict[int, RunningLaunch] = {}
        self._mine = threading.local()
        self._handlers: dict[str, Callable[[Caller], int]] = {
            "vprintf": self._printf, "__assertfail": self._assert, "malloc": self._malloc,
            "free": self._free, STACK_FULL: self._stack_full, NOT_A_FUNCTION: self._not_a_function,
            **DeviceRuntime(module, self.allocate, self.release).handlers(),
        }  # fmt: skip

    # ---- for the launcher -------------------------------------------------------------------
    def begin(self, arena: Arena, block: Dim3, rows: int) -> None:
        """Begin a launch with this number of rows in its table, earlier allocations included."""
        launch = RunningLaunch(arena, block, arena.table, rows)
        with self._lock:
            for address, size in self.heap.live.items():
                launch.add(address, size)
            self._launches[arena.address] = launch
        launch.descendants.depth = getattr(self._mine, "depth", 0)
        self._mine.launch = launch

    def end(self) -> None:
        """End the launch that this thread began."""
        launch: RunningLaunch = self._mine.launch
        with self._lock:
            del self._launches[launch.arena.address]
        if launch.printed:
            self._print_selected(launch.printed)
        self._mine.launch, self._mine.ended = None, launch.descendants

    def take_descendants(self) -> list[Item]:
        """The work that the last launch of this thread has left to run after it, once."""
        ended: Descendants | None = vars(self._mine).pop("ended", None)
        return [] if ended is None else ended.in_order()

    @contextlib.contextmanager
    def deeper(self, depth: int) -> Iterator[None]:
        """Count launches of this thread inside as grids that kernels have launched."""
        before = getattr(self._mine, "depth", 0)
        self._mine.depth = depth
        try:
            yield
        finally:
            self._mine.depth = before

    @property
    def failed(self) -> BaseException | None:
        """The exception that ended the launch of this thread."""
        launch: RunningLaunch | None = getattr(self._mine, "launch", None)
        return launch.failed if launch is not None else None

    # ---- for compiled code ------------------------------------------------------------------
    def _serve(
        self, number: int, context: int, worker: int, slot: int, warp: int, lanes: int,
        local: int | None, local_bytes: int, values: int,
    ) -> int:  # fmt: skip
        launch = self._launches[context]
        data = (ctypes.c_int64 * 256).from_address(values)
        handler = self._handlers[_NAMES[number]]
        windows = launch.windows(slot)
        site = ctypes.c_int64.from_address(worker + WorkerFields.ERROR_SITE).value
        for lane in (i for i in range(32) if lanes >> i & 1):
            window = ((local or 0) + lane * local_bytes, local_bytes)
            # Eight: a launch takes the most.
            arguments = [data[32 * i + lane] for i in range(8)]
            caller = Caller(launch, slot, 32 * warp + lane, window, arguments, windows, site)
            try:
                # Workers of several launches share the heap and the output.
                with self._lock:
                    data[lane] = handler(caller)
            except BaseException as error:  # an exception cannot pass through compiled code
                launch.failed = launch.failed or error
                code = Fault.ASSERT if isinstance(error, AssertFailed) else Fault.HOST
                return code | lane << 8
        return 0

    def _printf(self, caller: Caller) -> int:
        form, buffer = caller.values[:2]
        arguments = PrintfArguments(buffer, caller.read)
        text = render(caller.string(form), arguments, caller.string)
        if VARIABLE in os.environ:
            caller.launch.printed.append((*caller.coordinates, text.decode(errors="replace")))
        else:
            (self.stdout or sys.stdout).write(text.decode(errors="replace"))
        return arguments.count

    def _print_selected(self, lines: list[Line]) -> None:
        """Print what the selected threads of a launch have printed."""
        from weft.device.sim.printing_threads import parse  # few programs select threads

        chosen = parse(os.environ.get(VARIABLE, "all"), VARIABLE)
        (self.stdout or sys.stdout).write(chosen.text(lines))

    def _assert(self, caller: Caller) -> int:
        message, file, line, function, _ = caller.values[:5]
        raise AssertFailed(
            f"assertion `{caller.text(message)}` failed in {caller.text(function)}",
            where=f"{caller.text(file)}:{line & 0xFFFFFFFF}",
            got=caller.place,
        )

    def _malloc(self, caller: Caller) -> int:
        return self.allocate(caller, caller.values[0])

    def allocate(self, caller: Caller, size: int) -> int:
        """Memory of the device's heap; 0 where there is no room."""
        address = self.heap.malloc(size, caller.site, caller.place)
        if address:
            # Another launch of the module may use this memory at the same time.
            for launch in self._launches.values():
                launch.add(address, size)
        return address

    def _free(self, caller: Caller) -> int:
        if caller.values[0]:
            self.release(caller.values[0])
        return 0

    def release(self, address: int) -> None:
        """Free memory of the heap."""
        self.heap.free(address)
        for launch in self._launches.values():
            launch.remove(address)

    def _stack_full(self, caller: Caller) -> int:
        raise DeviceError(
            "the call stack of a thread is full",
            got=caller.place,
            allowed=f"{STACK_BYTES} bytes a thread",
            next="look for a recursion that does not end, or write it as a loop",
        )

    def _not_a_function(self, caller: Caller) -> int:
        raise _illegal(
            "a call through a pointer that is not a function of that kind",
            caller.values[0],
            "device functions of the module whose address is taken",
        )
