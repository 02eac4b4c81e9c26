"""Runs the runtime library in this Python process, for libraries that it loads.

Launches and copies are synchronous: the process uses the same memory without CUDA's knowledge.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from weft.device.models import GpuModel
from weft.device.selection import select
from weft.frontends.program import loading
from weft.frontends.program.interface import model_of
from weft.frontends.program.library import runtime_library
from weft.frontends.program.parts import CORE
from weft.frontends.program.runtime import Runtime
from weft.frontends.program.unit import TranslationUnit
from weft.source import toolkit

_ORIGIN = "a library of this process"
_lock = threading.RLock()
_runtime: Runtime | None = None
_parts: dict[str, ctypes.CDLL] = {}
_unknown: list[Callable[[int], bool]] = []


def find_unknown(find: Callable[[int], bool]) -> None:
    """Register `find` for addresses that a kernel is given and that are in no allocation.

    It returns whether it has found their memory and reported it to the library (`weft_adopt`).
    """
    if find not in _unknown:
        _unknown.append(find)


def error_text(error: int) -> str:
    """The text of a cudaError_t."""
    text = start().cudaGetErrorString
    text.restype = ctypes.c_char_p
    return str(text(error).decode())


def start(device: str = "sim", parts: Sequence[str] = (CORE,), gpus: int = 1) -> ctypes.CDLL:
    """Load parts of the runtime library, each once; the first call chooses the GPUs.

    Returns the last part, which has the functions of those that it needs as well.
    """
    global _runtime
    with _lock:
        if _runtime is None:
            _runtime = _started(select(device).simulated, gpus)
        if new := [part for part in parts if part not in _parts]:
            _load(new)
        return _parts[parts[-1]]


def _started(model: GpuModel, gpus: int) -> Runtime:
    tools, files = toolkit.find(), _AnyFile()
    _load([CORE])
    served = _parts[CORE]
    runtime = Runtime(
        served, lambda text: TranslationUnit(text, _ORIGIN, files, model, tools), _ORIGIN
    )
    runtime.find_unknown = lambda address: any(find(address) for find in _unknown)
    served.weft_begin(ctypes.byref(runtime.ops), ctypes.byref(model_of(model)))
    served.weft_gpus(gpus)
    served.weft_embed()
    served.weft_adopt.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    served.weft_disown.argtypes = (ctypes.c_void_p,)
    return runtime


def _load(parts: Sequence[str]) -> None:
    """Load parts that are not there yet.

    Their files stay open: the loader takes another file at the same path for the same library.
    """
    files = [os.memfd_create("weft") for _ in parts]
    for descriptor, data in zip(files, runtime_library(toolkit.find(), parts), strict=True):
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
    _parts.update(zip(parts, loading.load(files), strict=True))


class _AnyFile(Mapping[str, str]):
    """Files by path, read on demand to quote lines in errors: a library does not list its own."""

    def __getitem__(self, path: str) -> str:
        if not os.path.isfile(path):
            raise KeyError(path)
        return Path(path).read_text(encoding="utf-8", errors="replace")

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0
