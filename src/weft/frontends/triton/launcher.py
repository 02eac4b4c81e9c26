"""Runs a compiled Triton kernel on a simulated GPU; Triton calls the launcher."""

from __future__ import annotations

import functools
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
import triton
from triton.backends.nvidia.compiler import get_ptxas
from triton.runtime import _allocation

from weft import cache
from weft.device.base import Program
from weft.device.models import GpuModel
from weft.device.sim.device import module
from weft.errors import LaunchError
from weft.frontends import launches
from weft.frontends.triton import pipeline
from weft.frontends.triton.packing import TritonPacker
from weft.kernels import Kernel, Plain
from weft.source.resources import Resources, read

_captured: ContextVar[list[Plain] | None] = ContextVar("_captured", default=None)


@contextmanager
def capturing() -> Iterator[list[Plain]]:
    """Collect Triton launches instead of running them: (launch, its arguments)."""
    launches: list[Plain] = []
    token = _captured.set(launches)
    try:
        yield launches
    finally:
        _captured.reset(token)


@contextmanager
def running() -> Iterator[None]:
    """Run the launches inside even during a capture: Triton chooses a configuration by them."""
    token = _captured.set(None)
    try:
        yield
    finally:
        _captured.reset(token)


class Variant(Kernel):
    """A Triton kernel for the types and constants of its arguments.

    Its launches take all arguments of the function, constants too, and two scratch buffers.
    """

    def __init__(self, text: str, name: str, model: GpuModel, *, fast: bool = False) -> None:
        """`fast`: tensor cores by plain FMA."""
        text = pipeline.for_its_instructions(text)
        ptx = pipeline.load(text, name)
        measure = functools.partial(assemble, text, model.machine)
        super().__init__(Program(ptx), model, name, name, measure, fast=fast)

    def takes(
        self, signature: Mapping[str, Any], file: str, maps: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        """Set the argument types, the source file and the boxes of tensor descriptors."""
        if self._packer is None:
            ptx = pipeline.at_home(self.program.ptx, file)
            if ptx is not self.program.ptx:
                kernels, self.program = self.program.kernels, Program(ptx)
                self.program.kernels |= kernels
            self._packer = TritonPacker(self.name, self.summary, signature, maps)


class Scratch:
    """Scratch memory of a launch."""

    def __init__(self, nbytes: int, align: int) -> None:
        self._memory = np.zeros(nbytes + align, np.uint8)
        self._at = -(-int(self._memory.ctypes.data) // align) * align
        self._nbytes = nbytes
        self.dtype = self._memory.dtype
        self.shape = (nbytes,)

    def data_ptr(self) -> int:
        return self._at

    def element_size(self) -> int:
        return 1

    def numel(self) -> int:
        return self._nbytes

    def is_contiguous(self) -> bool:
        return True


class Launcher:
    """The launcher: Triton creates one per compiled kernel and calls it for each launch."""

    def __init__(self, src: Any, metadata: Any) -> None:
        self.signature = dict(src.signature)
        self.file = str(src.fn.fn.__code__.co_filename) if hasattr(src, "fn") else ""
        self.metadata = metadata

    def __call__(
        self,
        x: int,
        y: int,
        z: int,
        stream: object,
        function: Variant,
        packed: Sequence[int],
        launch_metadata: Any,
        enter: Any,
        leave: Any,
        *args: Any,
    ) -> None:
        """Run the grid and return when it is done."""
        captured = _captured.get()
        # An empty grid launches nothing; a capture still needs the compiled kernel.
        if 0 in (x, y, z) and captured is None:
            return
        launch, arguments = self._prepare((x, y, z), function, args)
        if captured is not None:
            captured.append((launch, arguments))
            return
        if enter is not None:
            enter(launch_metadata)
        launches.run(function.name, lambda: launch(*arguments), args)
        if leave is not None:
            leave(launch_metadata)

    def _prepare(self, grid: tuple[int, int, int], function: Variant, args: Sequence[Any]) -> Plain:
        """(a launch as weft configures it, all that it takes)."""
        m = self.metadata
        # Triton makes each program a cluster of so many blocks along x.
        ctas = getattr(m, "num_ctas", 1)
        grid = (grid[0] * ctas, grid[1], grid[2])
        function.takes(self.signature, self.file, getattr(m, "tensordesc_meta", None) or ())
        cluster = None if ctas == 1 else ctas
        launch = function[grid, m.num_warps * 32, m.shared, None, cluster]
        if getattr(m, "launch_cooperative_grid", False):
            code = module(function.program, function.simulator)
            code.check_cooperative(function.entry, launch.config)
        blocks = grid[0] * grid[1] * grid[2]
        scratch = (
            _scratch(blocks * m.global_scratch_size, m.global_scratch_align, "_allocator"),
            _scratch(
                blocks * m.profile_scratch_size, m.profile_scratch_align, "_profile_allocator"
            ),
        )
        return launch, (*args, *scratch)


def _scratch(nbytes: int, align: int, which: str) -> Any:
    """Allocate with the user's allocator if one is set, else in host memory."""
    if not nbytes:
        return None
    allocator = getattr(_allocation, which).get()
    if not isinstance(allocator, _allocation.NullAllocator):
        buffer = allocator(nbytes, align, 0)
        # Allocators ignore `align`: tensors of a GPU begin at multiples of 512, those of the CPU
        # at multiples of 64.
        if buffer.data_ptr() % align == 0:
            return buffer
    return Scratch(nbytes, align)


def assemble(text: str, arch: str) -> dict[str, Resources]:
    """The resources of a kernel, reported by Triton's `ptxas`."""
    key = cache.key("ptxas", triton.__version__, arch, text)
    report = cache.get("ptxas", key)
    if report is None:
        report = _ptxas(text, arch)
        cache.put("ptxas", key, report)
    return read(report.decode(), arch)


def _ptxas(text: str, arch: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernel.ptx")
        source.write_text(text, encoding="utf-8")
        # Triton has two: the older one does not read what is compiled for newer GPUs.
        tool = get_ptxas(int(re.sub(r"\D", "", arch)))
        command = [tool.path, "-v", f"--gpu-name={arch}", str(source)]
        done = subprocess.run([*command, "-o", f"{folder}/kernel.o"], capture_output=True)
    if done.returncode:
        raise LaunchError("ptxas refuses the kernel", got=done.stderr.decode().strip()[:2000])
    return done.stderr
