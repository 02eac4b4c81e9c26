"""Code on a GPU: PTX or machine code becomes kernels, launched with raw parameter blocks.

    module = load(ptx_text_or_cubin, device=0)
    module.launch("entry", params, grid=(4, 1, 1), block=(256, 1, 1), shared_bytes=0, stream=0)

This is the low-level entry: no arguments are checked, a launch returns before the kernel has run.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Mapping
from math import prod
from typing import Any

from weft.device import driver
from weft.device.base import Dim3, LaunchConfig
from weft.device.clusters import PORTABLE
from weft.device.gpu import pending
from weft.device.gpu.call import KernelCall, ParameterLayout
from weft.device.gpu.facts import facts
from weft.errors import LaunchError, PtxError
from weft.source.resources import Resources

_DEFAULT_SHARED = 48 * 1024
_MAX_DYNAMIC_SHARED = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"""
_ATTRIBUTES = {
    "registers": "num_regs",
    "shared_bytes": "shared_size_bytes",
    "local_bytes": "local_size_bytes",
    "constant_bytes": "const_size_bytes",
    "max_threads": "max_threads_per_block",
}
"""Our names for what cuda.core knows of a kernel."""
_VERSION = re.compile(r"^\s*\.version\s+(\d+)\.(\d+)", re.MULTILINE)


def load(image: str | bytes, device: int = 0, *, origin: str = "<ptx>", ptx: str = "") -> GpuModule:
    """Load PTX text, which the driver assembles, or a cubin made from the text `ptx`."""
    if isinstance(image, str):
        _check_version(image, origin)
    return GpuModule(image, device, origin, image if isinstance(image, str) else ptx)


def _check_version(text: str, origin: str) -> None:
    found, limit = _VERSION.search(text), driver.ptx_limit()
    if found is not None and (int(found[1]), int(found[2])) > limit:
        raise PtxError(
            "this PTX is newer than the GPU's driver",
            where=origin,
            got=f".version {found[1]}.{found[2]}",
            allowed=f"up to {limit[0]}.{limit[1]} with this driver",
            next="compile the source with weft.cuda, which makes machine code; "
            "or compile for an older .version; or update the driver",
        )


def waits_for_grid(ptx: str, entry: str) -> bool:
    """Return whether a kernel uses a barrier of the whole grid, which needs a cooperative launch.

    cooperative_groups finds the barrier's memory through two special registers.
    """
    if "%envreg" not in ptx:
        return False
    # The body of this entry only: another kernel of the module may use the registers.
    body = re.search(rf"\.entry\s+{re.escape(entry)}\b.*?(?=\.entry\s|\Z)", ptx, re.DOTALL)
    return body is not None and "%envreg" in body[0]


class GpuModule:
    """One image on one GPU."""

    def __init__(self, image: str | bytes, device: int, origin: str, ptx: str) -> None:
        self.device, self.origin, self._ptx = device, origin, ptx
        self._text = isinstance(image, str)
        self._kernels: dict[str, Any] = {}
        self._room: dict[str, int] = {}
        self._lock = threading.Lock()
        self._room_lock = threading.Lock()
        code = driver.core().ObjectCode
        # Loading allocates memory, which a capture in its default mode forbids.
        with driver.current(device), driver.relaxed_capture():
            try:
                if isinstance(image, str):
                    self._code = code.from_ptx(image.encode())
                else:
                    self._code = code.from_cubin(image)
                # cuda.core loads when the handle is asked for: here, so that errors are reported
                # here.
                self._library = int(self._code.handle)
            except Exception as error:  # cuda.core's class of errors is not public
                raise self._refused(error) from None

    def _refused(self, error: Exception) -> PtxError:
        said = _assembler_log(self._ptx, self.device) if self._text else ""
        return PtxError(
            "the driver cannot load this code",
            where=self.origin,
            got=said or str(error).strip() or type(error).__name__,
        )

    def kernel(self, entry: str) -> Any:
        """The cuda.core kernel of an entry."""
        with self._lock:
            if entry not in self._kernels:
                with driver.current(self.device), driver.relaxed_capture():
                    try:
                        self._kernels[entry] = self._code.get_kernel(entry)
                    except Exception as error:  # cuda.core's class of errors is not public
                        if entry in self._ptx:  # PTX is assembled when a kernel is asked for
                            raise self._refused(error) from None
                        raise LaunchError(
                            f"no kernel '{entry}' in {self.origin} on the GPU", got=str(error)
                        ) from None
            return self._kernels[entry]

    def attributes(self, entry: str) -> Mapping[str, int]:
        """The attributes of a kernel from the driver: registers, shared_bytes, local_bytes, ..."""
        kernel = self.kernel(entry)
        with driver.current(self.device):
            known = kernel.attributes
            return {ours: int(getattr(known, theirs)) for ours, theirs in _ATTRIBUTES.items()}

    def resources(self, entry: str) -> Resources:
        """The resources of a kernel here; the driver does not report spills."""
        known = self.attributes(entry)
        return Resources(
            arch=facts(self.device).machine,
            registers=known["registers"],
            local_bytes=known["local_bytes"],
            spill_stores=None,
            spill_loads=None,
            shared_bytes=known["shared_bytes"],
            barriers=None,
            constant_bytes=known["constant_bytes"],
        )

    def call(
        self,
        entry: str,
        layout: ParameterLayout,
        grid: Dim3,
        block: Dim3,
        shared_bytes: int = 0,
        cluster: Dim3 | None = None,
        early: bool = False,
        *,
        name: str = "",
    ) -> KernelCall:
        """Everything about a launch but its parameters and stream, to be used again and again."""
        kernel = self.kernel(entry)
        # Without an opt-in, static and dynamic shared memory have to fit 48 KiB together.
        self._make_room(entry, shared_bytes)
        if cluster is not None and prod(cluster) > PORTABLE:
            self._set_attribute(entry, driver.LARGE_CLUSTERS, 1)
        return KernelCall(
            name or entry,
            int(kernel.handle),
            self.device,
            layout,
            LaunchConfig(grid, block, shared_bytes, cluster, early),
            waits_for_grid(self._ptx, entry),
        )

    def launch(
        self,
        entry: str,
        params: bytes,
        grid: Dim3,
        block: Dim3,
        shared_bytes: int = 0,
        stream: int = 0,
    ) -> None:
        """Launch a kernel with a parameter block in the driver's layout."""
        layout = self._layout(entry)
        if len(params) < layout.size:
            raise LaunchError(
                f"{entry} needs a longer parameter block",
                got=f"{len(params)} bytes",
                allowed=f"{layout.size} bytes",
            )
        layout = ParameterLayout(len(params), layout.offsets)
        self.call(entry, layout, grid, block, shared_bytes).run(params, stream)

    def _layout(self, entry: str) -> ParameterLayout:
        """The driver's layout of the parameters; it refuses the number after the last one."""
        ask, kernel = driver.library().cuKernelGetParamInfo, int(self.kernel(entry).handle)
        offset, size, end = ctypes.c_size_t(), ctypes.c_size_t(), 0
        answer, offsets = (ctypes.byref(offset), ctypes.byref(size)), list[int]()
        with driver.current(self.device):
            while not ask(ctypes.c_void_p(kernel), ctypes.c_size_t(len(offsets)), *answer):
                offsets.append(offset.value)
                end = offset.value + size.value
        return ParameterLayout(end, tuple(offsets))

    def symbol(self, name: str) -> tuple[int, int] | None:
        """Address and size of a variable, or None."""
        binding = driver.bindings()
        with driver.current(self.device):
            library = binding.CUlibrary(self._library)
            code, address, nbytes = binding.cuLibraryGetGlobal(library, name.encode())
        return None if int(code) else (int(address), int(nbytes))

    def _static(self, entry: str) -> int:
        return self.attributes(entry)["shared_bytes"]

    def _make_room(self, entry: str, nbytes: int) -> None:
        """Request dynamic shared memory where it is more than the kernel may use so far."""
        least = self._room.get(entry) or _DEFAULT_SHARED - self._static(entry)
        # The driver keeps the attribute with the kernel: smaller requests need no second call. Two
        # threads that both need more must not leave the smaller request.
        with self._room_lock:
            if nbytes > self._room.get(entry, least):
                self._set_attribute(entry, _MAX_DYNAMIC_SHARED, nbytes)
                self._room[entry] = nbytes

    def _set_attribute(self, entry: str, attribute: int, value: int) -> None:
        with driver.current(self.device):
            code = driver.library().cuKernelSetAttribute(
                attribute,
                ctypes.c_int(value),
                ctypes.c_void_p(int(self.kernel(entry).handle)),
                ctypes.c_int(self.device),
            )
        if code:
            raise pending.failure(code, entry)


def _assembler_log(text: str, device: int) -> str:
    """The assembler's messages about PTX that the driver refused."""
    core = driver.core()
    try:
        options = core.ProgramOptions(arch=f"sm_{driver.device(device).arch}")
        core.Program(text, "ptx", options).compile("cubin")
    except Exception as error:  # whatever it raises, its text is what is wanted
        return str(error).strip()
    return ""
