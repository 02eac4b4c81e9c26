"""Object code of the simulated GPU: PTX that Numba loads as it loads a cubin.

Numba's own classes for modules and functions work with it: callbacks at loading, variables of
linked code, and the kernels of Numba's runtime for arrays that kernels allocate.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from cuda.core import ObjectCode
from numba.cuda.cudadrv import driver
from numpy.typing import NDArray

from weft.device.base import Allocation, LaunchConfig, Program
from weft.device.devices import simulated
from weft.device.models import GpuModel
from weft.device.sim.device import module
from weft.errors import LaunchError
from weft.kernels import Kernel
from weft.source.assemble import assemble
from weft.source.resources import Resources
from weft.values import Ptx

_images: weakref.WeakValueDictionary[int, NumbaImage] = weakref.WeakValueDictionary()


class NumbaImage(ObjectCode):  # type: ignore[misc]
    """A linked module.

    names      Numba's name of an entry -> its name in the PTX
    machine    makes machine code, which only `inspect_sass` needs
    registers  the most that a thread may use; None: as the assembler decides
    """

    def __init__(
        self,
        ptx: Ptx,
        model: GpuModel,
        names: Mapping[str, str] | None = None,
        machine: Callable[[], bytes] | None = None,
        registers: int | None = None,
    ) -> None:
        self.program, self.model, self._registers = Program(ptx), model, registers
        self._names, self._machine = names or {}, machine
        self._kernels: dict[str, ImageEntry] = {}
        _images[self.handle] = self

    @property
    def handle(self) -> int:
        """Its address identifies it."""
        return id(self)

    @property
    def code(self) -> bytes:
        """Machine code, which is only shown and never run."""
        return self.program.ptx.text.encode() if self._machine is None else self._machine()

    def get_kernel(self, name: str) -> ImageEntry:
        """A kernel by Numba's name of it."""
        entry = self._names.get(name, name)
        if entry not in self.program.summary.entries:
            raise LaunchError(
                "this module has no such kernel",
                got=name,
                allowed=", ".join(self.program.summary.entries),
            )
        if entry not in self._kernels:
            self.add(Kernel(self.program, self.model, entry, entry, self.measure))
        return self._kernels[entry]

    def add(self, kernel: Kernel) -> None:
        """One of its kernels, which may have a packer of its own."""
        self._kernels[kernel.entry] = ImageEntry(kernel)

    def measure(self) -> Mapping[str, Resources]:
        """Assemble the module and return the resources of its kernels."""
        return assemble(self.program.ptx.text, self.model.machine, self._registers)

    def variable(self, name: str) -> NDArray[np.uint8]:
        """The bytes of a variable."""
        return module(self.program, simulated(self.model)).variable(name, np.uint8)


def of_handle(handle: Any) -> NumbaImage:
    """The image that a handle belongs to."""
    image = _images.get(int(handle))
    if image is None:
        raise LaunchError("this is not a module of the simulated GPU", got=repr(handle))
    return image


class Attributes(NamedTuple):
    """Attributes of a kernel in the driver's form."""

    regs: int
    shared: int
    local: int
    const: int
    maxthreads: int


class ImageEntry:
    """A kernel of an image, as the driver would load it."""

    def __init__(self, kernel: Kernel) -> None:
        self.loaded = kernel
        self.handle = self.attributes = self

    @property
    def max_threads_per_block(self) -> int:
        """The GPU's limit, or that of `launch_bounds`."""
        bounds = self.loaded.summary.directives.get("maxntid")
        most = self.loaded.model.max_threads_per_block
        return most if bounds is None else int(np.prod(bounds))

    def blocks_per_sm(self, threads: int, shared: int) -> int:
        """The number of resident blocks per SM."""
        sim = module(self.loaded.program, self.loaded.simulator)
        grid = LaunchConfig((1, 1, 1), (threads, 1, 1), shared)
        info = sim.code(self.loaded.entry, grid.block).info
        blocks = sim.resident_blocks(info, grid, sim.registers(self.loaded.entry))
        return blocks // sim.model.sms


class NumbaFunction(driver.CudaPythonFunction):  # type: ignore[misc]
    """Numba's function object. Its attributes are measured when a program reads them."""

    def __init__(self, owner: Any, kernel: ImageEntry, name: str) -> None:
        self.module, self.kernel, self.handle, self.name = owner, kernel, kernel, name

    @property
    def attrs(self) -> Attributes:
        r = self.kernel.loaded.resources
        most = self.kernel.max_threads_per_block
        return Attributes(r.registers, r.shared_bytes, r.local_bytes, r.constant_bytes, most)


def launcher(reachable: Callable[[], list[Allocation]]) -> Callable[..., None]:
    """Stand in for `cuda.core.launch`, which Numba calls for the kernels of its own runtime."""

    def launch(stream: object, config: Any, kernel: ImageEntry, *args: Any) -> None:
        shape = tuple(config.grid), tuple(config.block), config.shmem_size
        kernel.loaded[shape].reaching(reachable(), *map(_number, args))

    return launch


def linker(model: GpuModel) -> type:
    """Stand in for Numba's linker, where Numba links kernels of its own runtime."""

    class Linker(driver._Linker):  # type: ignore[misc]
        def complete(self) -> NumbaImage:
            text = self.get_linked_ptx().decode().rstrip("\0 \n")
            return NumbaImage(Ptx(text, model.compile_for, "<numba>", {}, {}, {}), model)

    return Linker


def _number(value: Any) -> Any:
    return getattr(value, "value", value) if not isinstance(value, Sequence) else value
