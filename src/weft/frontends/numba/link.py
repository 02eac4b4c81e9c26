"""Links the PTX of a Numba kernel, its libraries and linked files into one module.

Numba links machine code; the simulator needs PTX. With link-time optimisation, Numba's default,
nvJitLink links the kernel with CUDA C++ and LTO-IR and gives PTX: calls are inlined and products
are fused with sums exactly as on a GPU. Without it, modules of PTX are linked by name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cuda.bindings.nvjitlink import nvJitLinkError
from numba.cuda.core import config
from numba.cuda.cudadrv import driver
from numba.cuda.cudadrv.linkable_code import CUSource, LinkableCode, PTXSource
from numba.cuda.memory_management import nrt

from weft.device.models import GpuModel
from weft.errors import CompileError
from weft.frontends.numba.context import capability
from weft.frontends.program.images import linked
from weft.source import compile_cuda
from weft.source.from_cuda import compile_lto

_NUMBA = Path(driver.__file__).parents[1]
_OBJECTS = (".ltoir", ".o", ".a", ".fatbin", ".cubin")
_VERSION = re.compile(r"^\s*\.version\s+([\d.]+)", re.MULTILINE)
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
_FLAG = re.compile(r'i32 \d+, !"Debug Info Version"')
_AS_NVRTC = 'i32 1, !"Debug Info Version"'
_DEBUG = re.compile(
    r",? !dbg !\d+|^!llvm\.dbg\.cu = .*$|^\s*(tail )?call void @\"?llvm\.dbg\..*$", re.MULTILINE
)
"""Line information in LLVM's IR."""


def link(library: Any, model: GpuModel) -> str:
    """Link a kernel's code library and its files into one PTX module."""
    cc, arch = (*capability(model), ""), model.compile_for
    files = sorted(library._linking_files, key=_name)
    ptx = [file for file in files if _suffix(file) == ".ptx"]
    objects = [file for file in files if _suffix(file) in _OBJECTS]
    cuda = [file for file in files if file not in ptx and file not in objects]
    # Optimisation removes functions that only PTX calls.
    if objects or (cuda and not ptx and library._lto and driver._have_nvjitlink()):
        # LTO-IR of a newer architecture than the target's cannot be linked.
        target = model.compute_capability if objects else capability(model)
        texts = [_optimized(library, cuda, objects, target, arch)]
    else:
        texts = [*library.get_asm_strs(cc=cc), *(_from_cuda(*_read(f), arch) for f in cuda)]
    texts += [str(_read(file)[0]) for file in ptx]
    if any("cudaCG" in text for text in texts):
        texts.append(_runtime(arch))
    return linked.link(_of_one_version(texts))


def _of_one_version(texts: Sequence[str]) -> list[str]:
    """The first text, whose header counts, with the newest version of PTX that any of them has."""
    versions = [m[1] for text in texts if (m := _VERSION.search(text))]
    newest = max(versions, key=lambda v: tuple(map(int, v.split("."))))
    first, *others = texts
    return [_VERSION.sub(f".version {newest}", first, count=1), *others]


# ---- link-time optimisation ---------------------------------------------------------------------


def _optimized(
    library: Any, cuda: Sequence[Any], objects: Sequence[Any], cc: tuple[int, int], arch: str
) -> str:
    """The kernel with its CUDA C++ and LTO-IR, as PTX."""
    # NVRTC's line information has this flag in another form, and NVVM takes no two forms.
    library._llvm_strs = [_FLAG.sub(_AS_NVRTC, text) for text in library.llvm_strs]
    debug = library._nvvm_options.pop("g", "no") is None  # NVVM makes no LTO-IR of it
    if debug or any(getattr(file, "nrt", False) for file in [*cuda, *objects]):
        # Calls of Numba's runtime have no line, and LLVM refuses to inline them among lines.
        library._llvm_strs = [_DEBUG.sub("", text) for text in library.llvm_strs]
    others = [(compile_lto(*_read(f), arch=arch, include=_folders()), _name(f)) for f in cuda]
    try:
        text = _linked(library, others, objects, cc)
    except nvJitLinkError as error:
        raise _refused([*objects, *cuda], error) from error
    if config.DUMP_ASSEMBLY:
        print(f"ASSEMBLY (AFTER LTO) {library.name}".center(80, "-"), text, "=" * 80, sep="\n")
    return text


def _linked(
    library: Any, others: Sequence[tuple[bytes, str]], objects: Sequence[Any], cc: tuple[int, int]
) -> str:
    linker = driver._Linker(cc=cc, lto=True, lineinfo=True)
    linker.add_ltoir(library.get_ltoir(cc=(*cc, "")))
    for code, name in others:
        linker.add_ltoir(code, name)
    for file in objects:
        linker.add_file_guess_ext(file)
    return str(linker.get_linked_ptx().decode()).rstrip("\0 \n")


def _refused(files: Sequence[Any], error: Exception) -> CompileError:
    return CompileError(
        "nvJitLink cannot link this into a simulated kernel",
        got=", ".join(map(_name, files)),
        allowed="CUDA C++ (.cu), PTX (.ptx), and objects with LTO-IR (nvcc -dlto); "
        "machine code cannot be simulated",
        next=f"nvJitLink says: {str(error).strip()}",
    )


# ---- the files ----------------------------------------------------------------------------------


def _suffix(file: Any) -> str:
    """The kind of a path or of one of Numba's linkable objects, as a suffix."""
    if isinstance(file, LinkableCode):
        return {CUSource: ".cu", PTXSource: ".ptx"}.get(type(file), ".o")
    suffix = Path(file).suffix if isinstance(file, str | Path) else ""
    if suffix not in (".cu", ".ptx", *_OBJECTS):
        driver._Linker(cc=(8, 0)).add_file_guess_ext(file)  # Numba's own error
    return suffix


def _name(file: Any) -> str:
    return str(file if isinstance(file, str | Path) else getattr(file, "name", file))


def _read(file: Any) -> tuple[str | Path, str]:
    """The text, or the path of CUDA C++; and the name for messages."""
    if isinstance(file, LinkableCode):
        data = file.data
        return data.decode() if isinstance(data, bytes) else data, file.name
    path = Path(file)
    return (path if path.suffix == ".cu" else path.read_text(encoding="utf-8")), str(file)


def _folders() -> list[str]:
    """Folders of headers that Numba searches: its own, those of its runtime, and the user's."""
    extra = config.CUDA_NVRTC_EXTRA_SEARCH_PATHS or ""
    own = [str(_NUMBA / "include" / "13"), nrt.get_include()]
    return [*own, *(folder for folder in extra.split(":") if folder)]


def _from_cuda(source: str | Path, name: str, arch: str) -> str:
    """Compile with relocatable code, which keeps functions that only other modules call."""
    flags = ["--relocatable-device-code=true"]
    ptx = compile_cuda(source, arch=arch, name=name, include=_folders(), options=flags)
    return ptx.text


def _runtime(arch: str) -> str:
    text = _from_cuda(_RUNTIME, "grid_sync.cu", arch)
    for name, called in _RUNTIME_NAMES.items():
        text = text.replace(name, called)
    return text
