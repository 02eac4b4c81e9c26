"""Lets kernels of libraries access the memory of tensors.

torch's CPU allocator reports its allocations (memory.cpp). Tensors that existed before, and those
whose memory another library owns, such as a NumPy array, are found when a kernel is given an
address that is in no known allocation.
"""

from __future__ import annotations

import ctypes
import functools
import os
import tempfile
from pathlib import Path

import torch

from weft import cache
from weft.frontends.program import owners, process
from weft.source import toolkit

HERE = Path(__file__).parent
TORCH = Path(torch.__file__).parent


@functools.cache
def report() -> None:
    """Make torch's allocator report to the runtime library from now on."""
    library, memory = process.start(), _compiled()
    memory.weft_report_tensors(library.weft_adopt, library.weft_disown)
    process.find_unknown(owners.find)
    torch.cuda.synchronize = _synchronize


def _synchronize(device: object = None) -> None:
    """Raise the error of a kernel that failed, as torch does."""
    library = process.start()
    if error := library.cudaDeviceSynchronize():
        raise RuntimeError(f"CUDA error: {process.error_text(error)}")


def _compiled() -> ctypes.CDLL:
    """The library that watches torch's allocator; compiled once for a version of torch."""
    tools, source = toolkit.find(), HERE / "memory.cpp"
    key = cache.key(
        "tensors", tools.identity, torch.__version__, str(TORCH), source.read_text("utf-8")
    )
    with tempfile.TemporaryDirectory(prefix="weft-") as folder:
        out = Path(folder) / "memory.so"
        if (data := cache.get("library", key)) is None:
            flags = ["-std=c++20", "-O1", "-shared", "-fPIC", "-isystem", str(TORCH / "include")]
            link = [f"-L{TORCH / 'lib'}", "-lc10"]
            command = ["g++", *flags, str(source), "-o", str(out), *link]
            tools.call(command, what="compile weft's report of tensors")
            data = out.read_bytes()
            cache.put("library", key, data)
        out.write_bytes(data)
        return ctypes.CDLL(str(out), mode=os.RTLD_LOCAL)
