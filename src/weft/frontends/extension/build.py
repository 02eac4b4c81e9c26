"""Builds an extension: nvcc compiles its CUDA files, g++ its C++ files."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import cpp_extension

from weft.device import models
from weft.frontends.extension.tensors import HERE, TORCH
from weft.frontends.program import flags as nvcc_flags
from weft.frontends.program.build import CompileStep, device_options, make
from weft.source import toolkit

_CUDA_SUFFIXES = (".cu", ".cuh")
_STANDARD = re.compile(r"-std=(c\+\+\d+)")
_LIBRARIES = ("c10", "torch", "torch_cpu", "torch_python")


@dataclass(frozen=True)
class Extension:
    """The description that torch passes on: a module's name, its files and the user's flags."""

    name: str
    sources: Sequence[str]
    cxx: Sequence[str] = ()
    nvcc: Sequence[str] = ()
    link: Sequence[str] = ()
    include: Sequence[str] = ()


def build(extension: Extension, gpu: str) -> bytes:
    """The shared object of an extension."""
    tools = toolkit.find()
    cuda = [tools.nvcc, *device_options(models.get(gpu).compile_for), *_nvcc(extension)]
    host = shutil.which("g++") or "g++"
    cxx = [
        host,
        "-fPIC",
        "-fsigned-char",
        *_common(extension),
        *extension.cxx,
        "-isystem",
        str(tools.include),
    ]
    cxx += ["-idirafter", str(toolkit.LIBRARIES)]
    commands = {True: tuple(cuda), False: tuple(cxx)}
    steps = [
        CompileStep(os.path.abspath(path), commands[path.endswith(_CUDA_SUFFIXES)])
        for path in map(str, extension.sources)
    ]
    return make(steps, _link(extension), tools, main=False).code


def _common(extension: Extension) -> list[str]:
    """Flags of both compilers. Headers of torch are system headers: a change is a new version."""
    torchs = [TORCH / "include", TORCH / "include/torch/csrc/api/include"]
    system = [*map(str, torchs), sysconfig.get_paths()["include"]]
    names = [f"TORCH_EXTENSION_NAME={extension.name}", "TORCH_API_INCLUDE_EXTENSION_H"]
    names += [f"_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"]
    names += ["weft_torch_" + re.sub(r"\W", "_", torch.__version__)]  # part of the cache key
    given = (*extension.cxx, *extension.nvcc)
    standard = [] if any("-std=" in flag for flag in given) else [f"-std={_standard()}"]
    flags = [*(f"-D{name}" for name in names), *standard, f"-I{HERE / 'include'}"]
    flags += [f"-I{os.path.abspath(folder)}" for folder in extension.include]
    return flags + [part for folder in system for part in ("-isystem", folder)]


def _standard() -> str:
    """The C++ standard that this version of torch needs: the one that it uses itself."""
    return str(_STANDARD.findall(inspect.getsource(cpp_extension))[-1])


def _nvcc(extension: Extension) -> list[str]:
    given = nvcc_flags.wanted([flag for flag in extension.nvcc if flag != "-Xcompiler=-fPIC"])
    return [*_common(extension), *cpp_extension.COMMON_NVCC_FLAGS, *given]


def _link(extension: Extension) -> list[str]:
    """The user's flags, and torch's libraries, which the process has loaded already."""
    folder = str(TORCH / "lib")
    own = [f"-L{folder}", *(f"-l{name}" for name in _LIBRARIES)]
    return [*nvcc_flags.wanted(_for_nvcc(extension.link)), *own]


def _for_nvcc(flags: Sequence[str]) -> list[str]:
    """Flags of the linker as nvcc takes them: `-Wl,` is its `-Xlinker`."""
    return [re.sub(r"^-Wl,", "-Xlinker=", flag) for flag in flags if flag != "-shared"]


def of_setup(extension: Any, name: str) -> Extension:
    """An extension of a setup.py."""
    given = extension.extra_compile_args
    flags = given if isinstance(given, dict) else {"cxx": given, "nvcc": given}
    macros = [f"-D{n}" if v is None else f"-D{n}={v}" for n, v in extension.define_macros]
    link = [*extension.extra_link_args, *(f"-L{folder}" for folder in extension.library_dirs)]
    return Extension(
        name,
        extension.sources,
        [*macros, *flags.get("cxx", [])],
        [*macros, *flags.get("nvcc", [])],
        [*link, *(f"-l{library}" for library in extension.libraries)],
        extension.include_dirs,
    )
