"""Replaces the step of `torch.utils.cpp_extension` that compiles, and what needs a CUDA build."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

from torch.utils import cpp_extension

from weft.frontends.extension.build import Extension, build, of_setup
from weft.source import toolkit


def install(gpu: str) -> None:
    """Replace names of `torch.utils.cpp_extension`; kernels run on this GPU model."""

    def compile_sources(name: str, sources: list[str], **options: Any) -> None:
        """Compile an extension without ninja, which torch's own function runs."""
        extension = Extension(
            name,
            sources,
            options.get("extra_cflags") or (),
            options.get("extra_cuda_cflags") or (),
            options.get("extra_ldflags") or (),
            options.get("extra_include_paths") or (),
        )
        _write(os.path.join(options["build_directory"], f"{name}.so"), build(extension, gpu))

    def build_extensions(command: Any) -> None:
        """For setup.py: builds each extension of the command `build_ext`."""
        for extension in command.extensions:
            path = command.get_ext_fullpath(extension.name)
            name = extension.name.rpartition(".")[2]
            _write(path, build(of_setup(extension, name), gpu))

    cpp_extension._write_ninja_file_and_build_library = compile_sources
    cpp_extension.BuildExtension.build_extensions = build_extensions
    cpp_extension.CUDAExtension = _cuda_extension
    if nvcc := toolkit.locate("nvcc", toolkit.VARIABLE):  # else the first build reports it
        cpp_extension.CUDA_HOME = str(Path(nvcc).parent.parent)


def _cuda_extension(name: str, sources: list[str], *args: Any, **options: Any) -> Any:
    """An extension with CUDA files; torch's own also names libraries that a CPU build lacks."""
    setuptools: Any = importlib.import_module("setuptools")  # scripts do without it
    options.setdefault("language", "c++")
    return setuptools.Extension(name, sources, *args, **options)


def _write(path: str, data: bytes) -> None:
    """Write a file whole, under another name first: the old one may be loaded."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    temporary = f"{path}.{os.getpid()}"
    Path(temporary).write_bytes(data)
    os.chmod(temporary, 0o755)
    os.replace(temporary, path)
