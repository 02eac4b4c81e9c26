"""Links the PTX of a Numba kernel, its libraries and linked files into one module.

Numba links machine code; the simulator needs PTX. CUDA C++ that a kernel is linked with is compiled
by NVRTC, as are the two CUDA runtime functions for grid synchronisation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from weft.errors import CompileError
from weft.source import compile_cuda

_HEADER = re.compile(r"^\s*\.(version|target|address_size)\b.*$", re.MULTILINE)
_RUNTIME = """\
#include <cooperative_groups.h>

extern "C" __device__ unsigned long long grid_handle(unsigned scope) { return scope; }

extern "C" __device__ unsigned grid_sync(unsigned long long, unsigned) {
    cooperative_groups::this_grid().sync();
    return 0;
}
"""
_RUNTIME_NAMES = {"grid_handle": "cudaCGGetIntrinsicHandle", "grid_sync": "cudaCGSynchronize"}
"""The names that Numba uses. The header declares them with other types, so they are renamed."""


def link(modules: Sequence[str], files: Iterable[Any], arch: str) -> str:
    """Links a kernel's modules and files into one PTX module."""
    texts = [*modules, *(_compiled(file, arch) for file in files)]
    if any("cudaCGSynchronize" in text for text in modules):
        texts.append(_runtime(arch))
    # A module has one header: that of the first text.
    first, *others = texts
    return "\n".join([first, *(_HEADER.sub("", text) for text in others)])


def _compiled(file: Any, arch: str) -> str:
    """PTX of a path, or of one of Numba's `CUSource` and `PTXSource`."""
    if isinstance(file, str | Path):
        name, suffix = str(file), Path(file).suffix
        read: Any = Path(file)
    else:
        name, suffix = (
            getattr(file, "name", "<linked>"),
            {"cu": ".cu", "ptx": ".ptx"}.get(getattr(file, "kind", ""), ""),
        )
        data = file.data
        read = data.decode() if isinstance(data, bytes) else data
    if suffix == ".cu":
        return _from_cuda(read, arch, name)
    if suffix == ".ptx":
        return read.read_text(encoding="utf-8") if isinstance(read, Path) else str(read)
    raise CompileError(
        "this file cannot be linked into a simulated kernel",
        got=name,
        allowed="CUDA C++ (.cu) and PTX (.ptx); machine code cannot be simulated",
    )


def _from_cuda(source: str | Path, arch: str, name: str) -> str:
    """Compiles with relocatable code, which keeps functions that only other modules call."""
    ptx = compile_cuda(source, arch=arch, name=name, options=["--relocatable-device-code=true"])
    return _without_lines(ptx.text)


def _runtime(arch: str) -> str:
    text = _from_cuda(_RUNTIME, arch, "grid_sync.cu")
    for name, called in _RUNTIME_NAMES.items():
        text = text.replace(name, called)
    return text


def _without_lines(text: str) -> str:
    """Removes line information: file numbers are valid only within their own module."""
    text = re.sub(r"^\s*\.(loc|file)\b.*$", "", text, flags=re.MULTILINE)
    return re.split(r"^\s*\.section\b", text, maxsplit=1, flags=re.MULTILINE)[0]
