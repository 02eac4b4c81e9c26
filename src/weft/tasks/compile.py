"""Compiles CUDA C++: to PTX, or to a module of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.device.gpu.facts import facts
from weft.device.selection import select
from weft.kernels import cuda
from weft.kernels.module import CudaModule
from weft.source import compile_cuda
from weft.source.unit import Define
from weft.values import Ptx


@dataclass(frozen=True)
class CompileOptions:
    """A source, and how to compile it.

    source   a file, or CUDA C++ itself, which messages then call `name`
    defines  macros: "NAME" or "NAME=VALUE"
    flags    further options for NVRTC
    """

    source: Path | str
    device: str = "sim"
    name: str = "kernel.cu"
    std: str = "c++17"
    defines: Sequence[str] = ()
    include: Sequence[str | Path] = ()
    fast_math: bool = False
    flags: Sequence[str] = ()

    @property
    def keywords(self) -> dict[str, Any]:
        """The options that both compilers take."""
        return {
            "name": self.name,
            "std": self.std,
            "defines": dict(map(_definition, self.defines)),
            "include": self.include,
            "fast_math": self.fast_math,
            "options": self.flags,
        }


def module(options: CompileOptions) -> CudaModule:
    """Compile the kernels of a source for their device."""
    return cuda(options.source, device=options.device, **options.keywords)


def ptx(options: CompileOptions, arch: str | None, kernels: Sequence[str]) -> Ptx:
    """Compile to PTX, for `arch` or that of the device; `kernels` instantiate templates."""
    target = arch or _architecture(options.device)
    return compile_cuda(options.source, arch=target, name_expressions=kernels, **options.keywords)


def _architecture(device: str) -> str:
    chosen = select(device)
    return chosen.simulated.compile_for if chosen.number is None else facts(chosen.number).machine


def _definition(text: str) -> tuple[str, Define]:
    name, equals, value = text.partition("=")
    return name, value if equals else None
