"""The device runtime of CUDA: child grids and the other calls that kernels make of `cudadevrt`.

Child grids, and copies and fills that a kernel asks for, run when the grid of their parent has
ended. A parent cannot wait for its children, so it does not notice this. Streams and events of a
kernel order nothing beyond the order of the calls, which is preserved.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Protocol

from weft.device.base import LaunchConfig
from weft.ptx.services import DEVICE_RUNTIME, SET_CONDITIONAL
from weft.records import dataclass

if TYPE_CHECKING:
    from weft.device.models import GpuModel
    from weft.device.summary import ModuleSummary

MOST_DEPTH = 24
"""The maximum nesting of child launches, as on a GPU."""
_OK, _INVALID_VALUE, _NO_MEMORY, _INVALID_CONFIGURATION = 0, 1, 2, 9
_DEPTH_EXCEEDED, _INVALID_FUNCTION = 65, 98
_TAIL_STREAM, _FIRST_STREAM = 3, 16
_VERSION = 13000

set_conditional: Callable[[int, int], None] | None = None
"""The implementation of `cudaGraphSetConditional`; a program with graphs provides it."""


@dataclass(frozen=True, slots=True)
class ChildGrid:
    """A child grid that waits for its parent."""

    entry: str
    config: LaunchConfig
    params: bytes
    depth: int


Item = ChildGrid | Callable[[], object]
"""Work that runs after a grid: another grid, a copy or a fill."""


@dataclass(slots=True)
class Descendants:
    """Requests of the kernels of one launch.

    depth    of the launch itself: 0 for one of the host
    buffers  parameter buffers that are being filled: address to the launch that they are for
    errors   the last error of a thread, by block and thread
    """

    depth: int = 0
    children: list[Item] = field(default_factory=list)
    tails: list[Item] = field(default_factory=list)
    buffers: dict[int, ChildGrid] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)

    def in_order(self) -> list[Item]:
        """Tail launches begin when the parent and all its other children have ended."""
        return [*self.children, *self.tails]


class Launching(Protocol):
    """A launch that is under way."""

    @property
    def descendants(self) -> Descendants: ...


class CallingLane(Protocol):
    """One lane that calls."""

    @property
    def launch(self) -> Launching: ...
    @property
    def values(self) -> list[int]: ...
    @property
    def place(self) -> str: ...
    def window(self, address: int) -> int:
        """The number of bytes from an address on that belong to the kernel."""


class Owner(Protocol):
    """The module of the kernels."""

    model: GpuModel

    @property
    def summary(self) -> ModuleSummary: ...


class DeviceRuntime:
    """The calls of one module's kernels; two functions allocate and free memory of its heap."""

    def __init__(
        self, module: Owner, allocate: Callable[..., int], release: Callable[[int], None]
    ) -> None:
        self._module, self._allocate, self._release = module, allocate, release
        self._next_handle = _FIRST_STREAM

    def handlers(self) -> Mapping[str, Callable[[CallingLane], int]]:
        """Function name in PTX -> its handler."""
        calls: dict[str, Callable[[CallingLane], int]] = {
            "GetParameterBufferV2": self._parameter_buffer, "LaunchDeviceV2": self._launch,
            "GetLastError": self._last_error, "PeekAtLastError": self._peek_error,
            "GetDeviceCount": lambda _: 1, "RuntimeGetVersion": lambda _: _VERSION,
            "StreamCreateWithFlags": self._handle, "EventCreateWithFlags": self._handle,
            "Malloc": self._malloc, "Free": self._free,
            "MemcpyAsync": self._copy, "MemsetAsync": self._fill,
        }  # fmt: skip
        plain = {x: x.removeprefix("__cudaCDP2").removesuffix("_ptsz") for x in DEVICE_RUNTIME}
        served = {name: calls.get(call, self._nothing) for name, call in plain.items()}
        return {**served, SET_CONDITIONAL: self._set_conditional}

    # ---- launches ---------------------------------------------------------------------------
    def _parameter_buffer(self, caller: CallingLane) -> int:
        function, *sizes = caller.values[:8]
        grid, block, shared = tuple(sizes[:3]), tuple(sizes[3:6]), sizes[6] & 0xFFFFFFFF
        names = {number: name for name, number in self._module.summary.functions.items()}
        entry = self._module.summary.entries.get(names.get(function, ""))
        model, depth = self._module.model, caller.launch.descendants.depth + 1
        if entry is None:
            return self._failed(caller, _INVALID_FUNCTION) * 0
        threads = block[0] * block[1] * block[2]
        fits = all(1 <= n <= most for n, most in zip(grid, model.max_grid, strict=True))
        fits &= all(1 <= n <= most for n, most in zip(block, model.max_block, strict=True))
        if not fits or threads > model.max_threads_per_block:
            return self._failed(caller, _INVALID_CONFIGURATION) * 0
        if shared + entry.static_shared > model.shared_per_block:
            return self._failed(caller, _INVALID_VALUE) * 0
        if depth > MOST_DEPTH:
            return self._failed(caller, _DEPTH_EXCEEDED) * 0
        address = self._allocate(caller, max(entry.param_bytes, 1))
        if not address:
            return self._failed(caller, _NO_MEMORY) * 0
        config = LaunchConfig((grid[0], grid[1], grid[2]), (block[0], block[1], block[2]), shared)
        size = entry.param_bytes
        caller.launch.descendants.buffers[address] = ChildGrid(
            names[function], config, bytes(size), depth
        )
        return address

    def _launch(self, caller: CallingLane) -> int:
        address, stream = caller.values[:2]
        pending = caller.launch.descendants
        grid = pending.buffers.pop(address, None)
        if grid is None:
            return self._failed(caller, _INVALID_VALUE)
        params = ctypes.string_at(address, len(grid.params))
        self._release(address)
        tail = stream == _TAIL_STREAM
        # A tail launch takes the place of its parent, so a chain of them may be of any length.
        depth = grid.depth - 1 if tail else grid.depth
        ready = ChildGrid(grid.entry, grid.config, params, depth)
        (pending.tails if tail else pending.children).append(ready)
        return _OK

    # ---- memory -----------------------------------------------------------------------------
    def _malloc(self, caller: CallingLane) -> int:
        address = self._allocate(caller, caller.values[1])
        if not address:
            self._failed(caller, _NO_MEMORY)
        return address

    def _free(self, caller: CallingLane) -> int:
        if caller.values[0]:
            self._release(caller.values[0])
        return _OK

    def _copy(self, caller: CallingLane) -> int:
        to, source, size = caller.values[:3]
        if caller.window(to) < size or caller.window(source) < size:
            return self._failed(caller, _INVALID_VALUE)
        work = caller.launch.descendants.children
        work.append(functools.partial(ctypes.memmove, to, source, size))
        return _OK

    def _fill(self, caller: CallingLane) -> int:
        to, value, size = caller.values[:3]
        if caller.window(to) < size:
            return self._failed(caller, _INVALID_VALUE)
        work = caller.launch.descendants.children
        work.append(functools.partial(ctypes.memset, to, value & 255, size))
        return _OK

    # ---- the rest ---------------------------------------------------------------------------
    def _failed(self, caller: CallingLane, error: int) -> int:
        """Store the error of a thread, and return it."""
        caller.launch.descendants.errors[caller.place] = error
        return error

    def _last_error(self, caller: CallingLane) -> int:
        return caller.launch.descendants.errors.pop(caller.place, _OK)

    def _peek_error(self, caller: CallingLane) -> int:
        return caller.launch.descendants.errors.get(caller.place, _OK)

    def _handle(self, caller: CallingLane) -> int:
        """A new stream or event."""
        self._next_handle += 1
        return self._next_handle

    def _nothing(self, caller: CallingLane) -> int:
        return _OK

    def _set_conditional(self, caller: CallingLane) -> int:
        handle, value = caller.values[:2]
        if set_conditional is not None:
            set_conditional(handle, value & 0xFFFFFFFF)
        return _OK
