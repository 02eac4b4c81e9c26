"""The library that replaces the driver: an empty one, which depends on the runtime library."""

from __future__ import annotations

import ctypes
import functools
import os
import tempfile
from pathlib import Path

from weft import cache
from weft.frontends import embedded
from weft.frontends.program import owners, process
from weft.frontends.program import parts as library_parts
from weft.frontends.program.library import file_name, runtime_library
from weft.source import toolkit

_DRIVER = "libcuda.so.1"


@functools.cache
def load(gpu: str) -> bool:
    """Load the library into this process; without compilers do nothing: the script reports it."""
    if toolkit.locate("nvcc", toolkit.VARIABLE) is None:
        return False
    process.start(f"sim:{gpu}", _parts(), embedded.gpus())
    process.find_unknown(owners.find)
    with tempfile.TemporaryDirectory(prefix="weft-") as folder:
        path = Path(folder) / _DRIVER
        path.write_bytes(_built(Path(folder)))
        # The loader finds a library by its own name among those that are loaded.
        ctypes.CDLL(str(path), mode=os.RTLD_GLOBAL | os.RTLD_NOW)
    return True


def _built(folder: Path) -> bytes:
    tools = toolkit.find()
    names = [file_name(part) for part in _parts()]
    key = cache.key("driver", tools.identity, names, _DRIVER)
    if (data := cache.get("library", key)) is None:
        for name, data in zip(names, runtime_library(tools, _parts()), strict=True):
            (folder / name).write_bytes(data)
        (folder / "empty.cpp").write_text("", encoding="utf-8")
        linked = [f"-Wl,-soname,{_DRIVER}", "-Wl,--no-as-needed"]
        linked += [str(folder / name) for name in names]
        out = folder / _DRIVER
        command = ["g++", "-shared", "-fPIC", "-o", str(out), str(folder / "empty.cpp"), *linked]
        tools.call(command, what="link the stand-in of the driver")
        data = out.read_bytes()
        cache.put("library", key, data)
    return data


def _parts() -> tuple[str, ...]:
    """The parts of the runtime library that a driver has."""
    return library_parts.needed(["cuInit"])
