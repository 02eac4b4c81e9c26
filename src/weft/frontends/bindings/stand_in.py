"""The library that stands in for the driver: an empty one, which depends on the runtime library."""

from __future__ import annotations

import ctypes
import functools
import os
import tempfile
from pathlib import Path

from weft import cache
from weft.frontends.program import process
from weft.frontends.program.library import NAME, runtime_library
from weft.source import toolkit

_DRIVER = "libcuda.so.1"


@functools.cache
def load(gpu: str) -> None:
    """Loads it for this process, unless there are no compilers: then the script reports that."""
    if toolkit.locate("nvcc", toolkit.VARIABLE) is None:
        return
    process.start(f"sim:{gpu}")
    with tempfile.TemporaryDirectory(prefix="weft-") as folder:
        path = Path(folder) / _DRIVER
        path.write_bytes(_built(Path(folder)))
        # The loader finds a library by its own name among those that are loaded.
        ctypes.CDLL(str(path), mode=os.RTLD_GLOBAL | os.RTLD_NOW)


def _built(folder: Path) -> bytes:
    tools = toolkit.find()
    key = cache.key("driver", tools.identity, NAME, _DRIVER)
    if (data := cache.get("library", key)) is None:
        (folder / NAME).write_bytes(runtime_library(tools))
        (folder / "empty.cpp").write_text("")
        names = [f"-Wl,-soname,{_DRIVER}", "-Wl,--no-as-needed", str(folder / NAME)]
        out = folder / _DRIVER
        command = ["g++", "-shared", "-fPIC", "-o", str(out), str(folder / "empty.cpp"), *names]
        tools.call(command, what="link the stand-in of the driver")
        data = out.read_bytes()
        cache.put("library", key, data)
    return data
