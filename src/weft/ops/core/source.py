"""Load the library's CUDA sources, and map torch dtypes to C++ types."""

from __future__ import annotations

import functools
import hashlib
import importlib
import os
from pathlib import Path

import torch

from weft import kernels
from weft.errors import ArgumentError
from weft.kernels import Kernel
from weft.source import headers

HOME = Path(__file__).parents[1]
FAMILIES = HOME / "families"
REMEMBERED = 1024
"""Kernels that are kept beside those of plans, which each op bounds itself."""

CTYPES = {
    torch.float32: "float", torch.float16: "__half", torch.bfloat16: "__nv_bfloat16",
    torch.float64: "double", torch.int64: "long long", torch.int32: "int", torch.int16: "short",
    torch.int8: "signed char", torch.uint8: "unsigned char", torch.bool: "bool",
}  # fmt: skip


def ctype(dtype: torch.dtype) -> str:
    """The C++ type of a dtype's elements."""
    if dtype not in CTYPES:
        raise ArgumentError(
            "weft.ops has no kernels for this dtype",
            got=str(dtype),
            allowed=", ".join(str(d).removeprefix("torch.") for d in CTYPES),
        )
    return CTYPES[dtype]


def template(name: str, *arguments: object) -> str:
    """An instance of a kernel template: "rows<float, 4, true>" for ("rows", "float", 4, True)."""
    words = (str(a).lower() if isinstance(a, bool) else str(a) for a in arguments)
    return f"{name}<{', '.join(words)}>"


@functools.cache
def digest() -> str:
    """Eight digits that stand for all sources, so that a record says which kernels it is of."""
    made = hashlib.sha256()
    for name, path in sources().items():
        made.update(f"{name}\0".encode() + path.read_bytes())
    return made.hexdigest()[:8]


def sources() -> dict[str, Path]:
    """Every CUDA source of the library, the optimisers and the decoder, by the name that `kernel`
    takes, and every header of the device library, by the name that sources include."""
    library = Path(headers.DEVICE_LIBRARY)
    found = {p.relative_to(library).as_posix(): p for p in sorted(library.rglob("*.cuh"))}
    others = [HOME.parent / folder / "cuda" for folder in ("optim", "llm/fused")]
    for cuda in sorted([*HOME.rglob("cuda"), *others]):
        home = Path(os.path.relpath(cuda.parent, FAMILIES)).as_posix()
        found |= {f"{home}/{p.name}": p for p in sorted(cuda.glob("*.cu*"))}
    return found


@functools.lru_cache(REMEMBERED)
def kernel(file: str, name: str, **defines: str) -> Kernel:
    """A kernel of a family's source, e.g. ("softmax/forward.cu", "rows<float, 4>")."""
    family, _, rest = file.rpartition("/")
    folders = map(Path, importlib.import_module("weft.ops.families").__path__)
    home = next(folder / family for folder in folders if (folder / family).is_dir())
    path = (home / "cuda" / rest).resolve()
    return _module(path, tuple(sorted(defines.items()))).kernel(name)


@functools.lru_cache(REMEMBERED)
def _module(path: Path, defines: tuple[tuple[str, str], ...]) -> kernels.CudaModule:
    # One module per set of defines: kernels of it are instantiated on demand.
    return kernels.cuda(path, defines=dict(defines))
