"""Locates NVIDIA's headers, and suggests the wheel to install for a missing one.

If wheels are missing, the folders of an installed CUDA toolkit are searched last.

| header                                            | wheel               | comes with          |
|---------------------------------------------------|---------------------|---------------------|
| cuda_fp16.h, cuda_bf16.h, cuda_fp8.h, mma.h,      | nvidia-cuda-runtime | weft                |
| cooperative_groups.h, cuda_runtime.h, ...         |                     |                     |
| crt/* (included by the above)                     | nvidia-cuda-crt     | weft                |
| cuda/*, cub/*, thrust/*, nv/*                     | nvidia-cuda-cccl    | weft                |
| curand_kernel.h, curand*.h                        | nvidia-curand       | weft-gpu[curand]    |
| cutlass/*, cute/*                                 | nvidia-cutlass      | -                   |
| stdio.h, stdint.h, cmath, ... (C's own, device)   | -                   | weft, `include/`    |
| weft/* (the device library)                       | -                   | weft, `../include/` |
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

NVRTC = "nvidia-cuda-nvrtc"
_LAYOUT = os.path.join("nvidia", "cu13", "include")
_OWN = str(Path(__file__).parent / "include")
DEVICE_LIBRARY = str(Path(__file__).parent.parent / "include")
"""The folder of `weft/*.cuh`, whose text is part of the cache keys of sources."""
CONSTANTS = os.path.join(_OWN, "math.h")
"""INFINITY, NAN, M_PI and the like, which nvcc predefines and NVRTC does not."""
_MUST_HAVE = ("cuda_fp16.h", "crt/host_defines.h", "cuda/std/type_traits")
_CUTLASS = os.path.join("cutlass_library", "source")
CUTLASS_VARIABLE = "CUTLASS_PATH"
"""The folder of a checkout of CUTLASS, in place of the wheel."""
_HOMES = (
    (r"(cutlass|cute)/", "nvidia-cutlass"),
    (r"curand", "nvidia-curand"),
    (r"(cuda|cub|thrust|nv)/", "nvidia-cuda-cccl"),
    (r"crt/", "nvidia-cuda-crt"),
    (
        r"cu|mma\.h|cooperative_groups|vector_|math_constants|device_|sm_\d|nvrtc|library_types",
        "nvidia-cuda-runtime",
    ),
)
_EXTRAS = {"nvidia-curand": "curand"}
"""Wheels that an extra of weft installs; the others come with weft."""

_HOST = (
    (r"(torch|ATen|c10|pybind11)/|Python\.h", "a header of PyTorch's or Python's C++ interface"),
    (r"cu(blas|dnn|fft|sparse|solver|tensor)|nccl|nvml|npp", "a header of a library of the host"),
    (
        r"(sys|arpa|netinet)/|unistd\.h|pthread\.h|windows\.h|time\.h|errno\.h|signal\.h",
        "a header of the operating system",
    ),
    (r"[a-z_]+$", "a header of the host's C++ library"),
)
HOST_CODE = (
    "put what is for the host between #ifndef __CUDACC_RTC__ and #endif, or run the whole program: "
    "`weft run FILE.cu`"
)
"""Advice for kernel sources that contain host code."""


@functools.cache
def wheels() -> dict[str, str]:
    """Installed NVIDIA wheels and their versions, from folder names, without opening files."""
    versions: dict[str, str] = {}
    for folder in dict.fromkeys(sys.path):
        # importlib.metadata would open hundreds of files.
        if os.path.isdir(os.path.join(folder, "nvidia")):
            for name in os.listdir(folder or "."):
                if match := re.fullmatch(r"(nvidia_[^-]+)-([^-]+)\.dist-info", name):
                    versions.setdefault(match[1].replace("_", "-"), match[2])
    return versions


@functools.cache
def folders() -> tuple[str, ...]:
    """Include folders in search order; weft's own headers come last."""
    existing = _existing(os.path.join(folder, _LAYOUT) for folder in dict.fromkeys(sys.path))
    if not all(any(os.path.isfile(os.path.join(f, h)) for f in existing) for h in _MUST_HAVE):
        existing += _existing(toolkits())
    return (*existing, *cutlass(), _OWN, DEVICE_LIBRARY)


@functools.cache
def cutlass() -> tuple[str, ...]:
    """Include folders of CUTLASS: a checkout that the environment names, or the wheel."""
    if checkout := os.environ.get(CUTLASS_VARIABLE):
        roots = [checkout]
    else:
        roots = [os.path.join(folder, _CUTLASS) for folder in dict.fromkeys(sys.path)]
    kinds = ("include", os.path.join("tools", "util", "include"))
    found = [os.path.join(root, kind) for root in roots for kind in kinds]
    return tuple(path for path in found if os.path.isdir(path))


def toolkits() -> list[str]:
    """Include folders of installed CUDA toolkits."""
    roots = [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")]
    nvcc = shutil.which("nvcc")
    roots.append(os.path.dirname(os.path.dirname(os.path.realpath(nvcc))) if nvcc else "")
    roots.append("/usr/local/cuda")
    return [os.path.join(root, "include") for root in dict.fromkeys(roots) if root]


def _existing(roots: Iterable[str]) -> list[str]:
    both = (path for root in roots for path in (root, os.path.join(root, "cccl")))
    return [path for path in both if os.path.isdir(path)]


def wheel(header: str) -> str:
    """The wheel that contains a header, or ""."""
    return next((wheel for pattern, wheel in _HOMES if re.match(pattern, header)), "")


def package(header: str) -> str:
    """The command that installs the wheel of a header that was not found, or ""."""
    for pattern, wheel in _HOMES:
        if re.match(pattern, header) and wheel not in wheels():
            from weft.installation import pip_install

            extra = _EXTRAS.get(wheel)
            return pip_install(extra) if extra else f"pip install {wheel}"
    return ""


def advice(header: str) -> tuple[str, str]:
    """(what, next): why a header was not found, and the remedy."""
    for pattern, wheel in _HOMES:
        if re.match(pattern, header) and wheel not in wheels():
            return f"{header} comes with the wheel {wheel}, which is not installed", package(header)
    if any(os.path.isfile(os.path.join(root, "cuda", "std", header)) for root in folders()):
        return (
            f"{header} is a header of the host's C++ library, which device code does not have",
            f"include <cuda/std/{header}> and write cuda::std:: for std::",
        )
    for pattern, what in _HOST:
        if re.match(pattern, header):
            return f"{header} is {what}, which device code does not have", HOST_CODE
    return f"cannot open {header}", "add its folder: include=[...]"
