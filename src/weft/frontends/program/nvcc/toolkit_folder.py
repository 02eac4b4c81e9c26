"""Makes a folder like that of a CUDA toolkit, in which `nvcc` is weft's.

Build systems find a toolkit by such a folder. CMake asks nvcc what it would do, links with the
program that nvcc would link with, and looks for libraries beside it.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from weft.errors import Error
from weft.source import toolkit
from weft.source.toolkit import LIBRARIES, LINKER, VARIABLE, Toolkit

HOST_LINKER = "--host-linker"
"""The first word of a command line of g++ that links."""
_FOLDER = "WEFT_TOOLKIT"
"""In the environment of the folder's programs: its path."""
_TOOLS = ("nvlink", "fatbinary", "ptxas", "cudafe++", "bin2c", "cuobjdump", "nvdisasm", "crt")
_SHARED = (
    "cudart", "cuda", "cublas", "cublasLt", "cufft", "curand", "cusparse", "cusolver", "cudnn",
    "nccl", "nvrtc", "nvJitLink", "nvToolsExt", "nvidia-ml",
)  # fmt: skip
_STATIC = ("cudart_static", "cudadevrt", "culibos")
_STUB = (
    "ASSERT(0, \"{name} is weft's, which only nvcc links with. For CMake: "
    '-DCMAKE_TOOLCHAIN_FILE={folder}/{toolchain}")\n'
)
"""A linker script that fails with an explanation for programs linked without nvcc."""
_TOOLCHAIN = "weft.cmake"
_CMAKE = """\
# For CMake: weft's nvcc is the CUDA compiler, and links programs that call CUDA.
set(CMAKE_CUDA_COMPILER "{folder}/bin/nvcc")
set(CUDAToolkit_ROOT "{folder}")
foreach(language C CXX)
    set(link "{folder}/bin/{linker} <CMAKE_${{language}}_COMPILER> <FLAGS>")
    set(files "<LINK_FLAGS> <OBJECTS> -o <TARGET> <LINK_LIBRARIES>")
    set(CMAKE_${{language}}_LINK_EXECUTABLE "${{link}} <CMAKE_${{language}}_LINK_FLAGS> ${{files}}")
    set(shared "<CMAKE_SHARED_LIBRARY_CREATE_${{language}}_FLAGS> <SONAME_FLAG><TARGET_SONAME>")
    set(CMAKE_${{language}}_CREATE_SHARED_LIBRARY
        "${{link}} <CMAKE_SHARED_LIBRARY_${{language}}_FLAGS> ${{shared}} ${{files}}")
endforeach()
"""
"""CMake links with the C++ compiler where a program has files of C++."""


def make(folder: Path) -> Path:
    """Make the folder, or bring it up to date; return the path of its nvcc."""
    tools, folder = toolkit.find(), folder.absolute()
    root = Path(tools.root)
    if folder.exists() and any(folder.iterdir()) and not (folder / "bin" / LINKER).exists():
        raise Error(
            "this folder is neither empty nor a toolkit folder of weft",
            where=str(folder),
            next="name a new folder",
        )
    for name in ("bin", "include", "lib64/stubs"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    _script(folder, "nvcc", ["-m", "weft", "nvcc"], tools)
    _script(folder, LINKER, ["-m", "weft", "nvcc", HOST_LINKER], tools)
    for name in _TOOLS:
        _link(folder / "bin" / name, root / "bin" / name)
    _link(folder / "nvvm", root / "nvvm")
    _link(folder / "lib", folder / "lib64")
    for place in (LIBRARIES, Path(tools.include)):  # the toolkit's own replace weft's
        for path in place.iterdir():
            _link(folder / "include" / path.name, path)
    for file in [*(f"lib{x}.so" for x in _SHARED), *(f"lib{x}.a" for x in _STATIC)]:
        text = _STUB.format(name=file, folder=folder, toolchain=_TOOLCHAIN)
        (folder / "lib64" / file).write_text(text, encoding="utf-8")
    (folder / _TOOLCHAIN).write_text(_CMAKE.format(folder=folder, linker=LINKER), encoding="utf-8")
    return folder / "bin" / "nvcc"


def _script(folder: Path, name: str, module: Sequence[str], tools: Toolkit) -> None:
    """Write a program of the folder. It names the compiler, which may come after it on PATH."""
    command = shlex.join([sys.executable, "-P", *module])
    named = (
        f'export {_FOLDER}={shlex.quote(str(folder))} {VARIABLE}="${{{VARIABLE}:-{tools.nvcc}}}"'
    )
    path = folder / "bin" / name
    path.write_text(f'#!/bin/sh\n{named}\nexec {command} "$@"\n', encoding="utf-8")
    path.chmod(0o755)


def _link(path: Path, to: Path) -> None:
    if path.is_symlink():
        path.unlink()
    if to.exists():
        path.symlink_to(to)


def print_steps(arguments: Sequence[str], tools: Toolkit) -> int:
    """Print what nvcc would do, as it does for `-v`; return its exit code.

    In a toolkit folder, the folder stands for nvcc's own, and weft links.
    """
    command = [tools.nvcc, "--dryrun", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", encoding="utf-8"
    )
    folder, text = os.environ.get(_FOLDER), done.stderr
    if folder:
        for nvcc in (tools.nvcc, os.path.realpath(tools.nvcc)):
            root = os.path.dirname(os.path.dirname(nvcc))
            text = text.replace(f"{root}/bin/..", folder).replace(root, folder)
        linker = shlex.quote(os.path.join(folder, "bin", LINKER))
        text = re.sub(r"^#\$ (\"[^\"]*\"|\S*)g\+\+ (?=.*-Wl,)", rf"#$ {linker} ", text, flags=re.M)
    sys.stderr.write(text)
    sys.stderr.flush()
    return done.returncode


def print_linker(arguments: Sequence[str]) -> None:
    """Print a line of the linker, as g++ does for `-v`: CMake reads folders and libraries of it."""
    print("ld", *(word for word in arguments if word[:2] in ("-L", "-l")), file=sys.stderr)
