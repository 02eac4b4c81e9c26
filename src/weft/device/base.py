"""The protocol that the simulated GPU and the real one implement, and the values that it passes.

    module = program.on(device)                                code that is loaded on a device
    kernel = LaunchTarget(module, entry, config)               one of its kernels, with a grid
    launch = device.prepare(kernel, packer)                    compiled; the caller checks limits
    launch.run(args, packer.pack(args), time_limit)

`weft.kernels` uses devices through these names alone; `weft.device.devices` makes them.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from weft import garbage
from weft.device.summary import ModuleSummary, summarize
from weft.values import Ptx

if TYPE_CHECKING:  # a launch from the cache needs neither
    from weft.ptx.model import PtxModule
    from weft.source.resources import Resources

Assemble = Callable[[str], bytes]
"""An architecture, e.g. sm_90a -> machine code for it."""
Rebuild = Callable[[Sequence[str], str | None], Ptx]
"""A function that compiles a source again: with options that are added, and an edited text."""

PARSED = 32
"""Programs whose parsed PTX is kept, the newest: it takes 600 bytes per instruction."""
_parsed: deque[PtxModule] = deque()

Dim3 = tuple[int, int, int]
"""Sizes along x, y and z, as CUDA's dim3."""


class LaunchConfig(NamedTuple):
    """The execution configuration of a launch; `shared_bytes` is dynamic shared memory.

    cluster  the blocks of a cluster; None: as the kernel was compiled, or none
    early    blocks may start before the launch before this one has ended: the kernel waits for it
    """

    grid: Dim3
    block: Dim3
    shared_bytes: int = 0
    cluster: Dim3 | None = None
    early: bool = False


class MapArgument:
    """The base of `tensor_map.TensorMap`, for code that need not import the whole class."""


class Allocation(NamedTuple):
    """Memory that a launch may access.

    dtype   of its elements, as the array's library reports it; None where only the bytes are known
    shape   of a contiguous array, for messages; () where there is none
    around  it is the memory around a view, of which there is an allocation as well
    """

    address: int
    nbytes: int
    writable: bool
    name: str
    dtype: Any = None
    shape: tuple[int, ...] = ()
    around: bool = False


class ArrayPlace(NamedTuple):
    """The real GPU that the arrays of a launch are on, and which stream the launch uses.

    device   the number of the GPU
    library  the array library whose current stream is used; "" for none
    stream   the stream that the first array asks for, where its library reports one
    """

    device: int
    library: str
    stream: int | None


Packed = tuple[bytes, list[Allocation], object, ArrayPlace | None]
"""Packed arguments: the parameter block, the memory that the kernel may access, an object that
keeps this memory alive, and the real GPU that the arrays are on, None for host memory."""


class ArgumentPacker(Protocol):
    """Checks and packs the arguments of one kernel."""

    def pack(self, args: Sequence[Any]) -> Packed: ...


class KernelInfo(NamedTuple):
    """A kernel's name in the source, and how to get the assembler's resource report."""

    name: str
    resources: Callable[[], Resources]


class Limits(Protocol):
    """The limits that a simulated GPU and a real one both state."""

    @property
    def name(self) -> str: ...
    @property
    def machine(self) -> str: ...
    @property
    def max_grid(self) -> Dim3: ...
    @property
    def max_block(self) -> Dim3: ...
    @property
    def max_threads_per_block(self) -> int: ...
    @property
    def static_shared_per_block(self) -> int: ...
    @property
    def shared_per_block(self) -> int: ...
    @property
    def registers_per_block(self) -> int: ...
    @property
    def max_cluster(self) -> int:
        """Blocks of the largest cluster; 0 without clusters."""


class FastPath(NamedTuple):
    """Faster ways to repeat a launch with similar arguments. They refuse all other arguments.

    native  takes the arguments and returns 0 when it has launched
    python  takes the sequence of arguments and returns whether it has launched
    """

    native: Callable[..., int] | None
    python: Callable[[Sequence[Any]], bool] | None


class PreparedLaunch(Protocol):
    """A kernel with its launch configuration on one device: all that its launches share."""

    def run(self, args: Sequence[Any], packed: Packed, time_limit: float | None) -> FastPath | None:
        """Launch; return the fast path for launches like this one, if there is one."""

    def bind(self, args: Sequence[Any], packed: Packed) -> Callable[[], None]:
        """A function that launches with these arguments."""


class DeviceModule(Protocol):
    """A program that is loaded on a device."""

    def resources(self, entry: str) -> Resources | None:
        """The resources of a kernel, if the device reports them; None if an assembler must."""

    def find(self, name: str) -> list[str]:
        """The variables that a C++ name may mean, as PTX names them."""

    def admit(self, instance: Program) -> None:
        """Make the variables of a template instance reachable by `find` and `variable`."""

    def variable(self, name: str, dtype: Any) -> Any:
        """A variable, by its C++ name, that is indexed like an array."""


class LaunchTarget(NamedTuple):
    """A kernel of a loaded module, with its execution configuration."""

    module: DeviceModule
    entry: str
    config: LaunchConfig


class Device(Protocol):
    """A simulated or a real GPU. Equal devices share the programs that are loaded on them."""

    @property
    def limits(self) -> Limits: ...

    @property
    def architecture(self) -> str:
        """The architecture that sources are compiled for, e.g. sm_90a."""

    def get_ready(self) -> None:
        """Load what kernels may need soon, while a source is compiled."""

    def load(self, program: Program) -> DeviceModule:
        """Load a program; `Program.on` calls it once per device."""

    def prepare(
        self, kernel: LaunchTarget, packer: ArgumentPacker, stream: object = None
    ) -> PreparedLaunch:
        """Compile or load what launches with this configuration need."""

    def observe(
        self, kernel: LaunchTarget, packed: Packed, observer: object, time_limit: float | None
    ) -> None:
        """Run one launch under an observer; raise ArgumentError where none can be attached."""

    def sanitize(self, launch: PreparedLaunch, packed: Packed, time_limit: float | None) -> None:
        """Run one launch under the sanitizer; raise ArgumentError where it cannot run."""


def _nothing() -> None:
    """A reference to no module."""


class Program:
    """One compilation, and the devices that it is loaded on; the first use of a device loads it.

    An instance of a template is a program of its own, whose `base` is the program of its module.

    assemble  gives machine code for an architecture; None where there is only PTX
    rebuild   compiles the source again with more options of NVRTC, or an edited text of it; None
              where there is no source
    kernels   describes its kernels, by entry
    """

    def __init__(
        self,
        ptx: Ptx,
        assemble: Assemble | None = None,
        base: Program | None = None,
        rebuild: Rebuild | None = None,
    ):
        self.ptx, self.assemble, self.base, self.rebuild = ptx, assemble, base, rebuild
        self.kernels: dict[str, KernelInfo] = {}
        self.instances: weakref.WeakSet[Program] = weakref.WeakSet()
        self._loaded: dict[Device, DeviceModule] = {}
        self._lock = threading.RLock()
        self._module: Callable[[], PtxModule | None] = _nothing
        self._summary: ModuleSummary | None = None
        if base is not None:
            base.instances.add(self)

    # Not `functools.cached_property`, which in Python 3.11 has one lock for all programs.
    @property
    def module(self) -> PtxModule:
        """The parsed PTX; a program that was compiled long ago is parsed again."""
        module = self._module()
        if module is None:
            from weft.ptx.parse import parse  # a launch from the cache parses nothing

            with garbage.paused():
                module = parse(self.ptx.text, self.ptx.sources, name=self.ptx.origin)
            self._module = weakref.ref(module)
            _parsed.append(module)
            while len(_parsed) > PARSED:
                _parsed.popleft()
        return module

    @property
    def summary(self) -> ModuleSummary:
        """The module without its code."""
        if self._summary is None:
            self._summary = summarize(self.ptx.text, lambda: self.module)
        return self._summary

    def loaded(self, device: Device) -> DeviceModule | None:
        """The module on a device, if it has been loaded there."""
        return self._loaded.get(device)

    def on(self, device: Device) -> DeviceModule:
        """The module on a device."""
        module = self._loaded.get(device)
        if module is None:
            with self._lock:
                # Another thread may have loaded it while this one waited for the lock.
                module = self._loaded.get(device) or device.load(self)
                self._loaded[device] = module
        return module
