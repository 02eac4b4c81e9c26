"""The device code of one translation unit, loaded on the simulated GPU at first use."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

from weft import cache
from weft.device.base import Allocation, KernelInfo, Program
from weft.device.models import GpuModel
from weft.device.sim.device import SimDevice
from weft.device.sim.run.heap import Heap
from weft.device.sim.run.module import SimModule, TextureUnit
from weft.device.summary import KernelSummary
from weft.frontends.program.images import fatbin
from weft.source import demangle, read_ptx
from weft.source.resources import Resources, read
from weft.source.toolkit import Toolkit


class SourceFiles(Mapping[str, str]):
    """The user's files by path, read on demand to quote lines in errors."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        self._paths = paths

    def __getitem__(self, path: str) -> str:
        if path not in self._paths:
            raise KeyError(path)
        return (
            Path(path).read_text(encoding="utf-8", errors="replace") if os.path.isfile(path) else ""
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


class Unit:
    """A PTX module of the program."""

    def __init__(
        self, text: str, origin: str, files: Mapping[str, str], model: GpuModel, toolkit: Toolkit
    ) -> None:
        self.text, self._origin, self._files = text, origin, files
        self.model, self.toolkit = model, toolkit
        self._resources: dict[str, Resources] = {}
        self._heap_bytes: int | None = None
        self.textures: TextureUnit | None = None

    @cached_property
    def sim(self) -> SimModule:
        ptx = dataclasses.replace(read_ptx(self.text), origin=self._origin, sources=self._files)
        sim = SimDevice(self.model).load(Program(ptx))
        sim.place()
        if self.textures is not None:
            sim.root.textures = self.textures
        for name in sim.summary.entries:
            sim.kernels[name] = KernelInfo(_plain(name), functools.partial(self.resources, name))
        if self._heap_bytes is not None and sim.root.allocates:
            sim.services.heap = Heap(self._heap_bytes)
        return sim

    def set_heap(self, size: int) -> None:
        """Sets the heap size for device malloc; as on a GPU, before the first launch."""
        self._heap_bytes = size
        if self.loaded and self.sim.root.allocates and not self.sim.services.heap.live:
            self.sim.services.heap = Heap(size)

    @property
    def loaded(self) -> bool:
        return "sim" in vars(self)

    def entry(self, name: str) -> KernelSummary | None:
        return self.sim.summary.entries.get(name)

    def spelled(self, name: str) -> str:
        """The C++ name of a kernel."""
        return next((cpp for cpp, entry in self.sim.ptx.entries.items() if entry == name), name)

    def variable(self, name: str) -> tuple[int, int] | None:
        """Address and size of a variable."""
        self.sim.place()
        placed = self.sim.image.placed.get(name)
        return (placed.address, placed.variable.size) if placed else None

    def variables(self) -> list[Allocation]:
        """The memory of its variables, for kernels of other units that get a pointer to it."""
        placed = self.sim.image.placed.items() if self.loaded else ()
        return [
            Allocation(x.address, x.variable.size, x.variable.space == "global", name)
            for name, x in placed
        ]

    @property
    def constant_bytes(self) -> int:
        return sum(v.size for v in self.sim.summary.variables if v.space == "const")

    @property
    def version(self) -> int:
        """The compute capability that its PTX is for, as 80."""
        return fatbin.architecture(self.text)

    def resources(self, name: str) -> Resources:
        """The assembler's report of a kernel for the simulated GPU."""
        if name not in self._resources:
            self._resources[name] = self._assembled(name)
        return self._resources[name]

    def _assembled(self, name: str) -> Resources:
        arch = self.model.machine
        key = cache.key("resources", self.toolkit.identity, arch, name, self.text)
        report = cache.get("resources", key)
        if report is None:
            report = json.dumps(self._report(name, arch)).encode()
            cache.put("resources", key, report)
        return read(json.loads(report), arch)[name]

    def _report(self, name: str, arch: str) -> str:
        with tempfile.TemporaryDirectory(prefix="weft-") as folder:
            ptx = Path(folder) / "unit.ptx"
            ptx.write_text(self.text, encoding="utf-8")
            only = f"-v,--entry,{name}"
            arguments = ["-cubin", f"-arch={arch}", "-Xptxas", only, str(ptx)]
            return self.toolkit.run(
                [*arguments, "-o", str(ptx.with_suffix(".cubin"))], what=f"assemble {name}"
            )


def _plain(entry: str) -> str:
    """The demangled name of a kernel, or the mangled one if it cannot be read."""
    try:
        return demangle.function(entry).name
    except demangle.Unreadable:
        return entry
