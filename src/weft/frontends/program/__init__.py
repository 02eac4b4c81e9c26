"""Runs whole CUDA programs: compiled by nvcc, run in a separate process on the simulated GPU.

    running.py   builds a program and waits for its process
    build.py     sources to a shared object with `main`, and the library that serves it, cached
    shim/        the library: CUDA's runtime API, cuBLAS and cuRAND, in C++
    serve.py     the program's process
    runtime.py   requests of the library to the simulator

`run` is the entry point.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def run(path: str, args: Sequence[str], **options: Any) -> int:
    """Build and run a program; return its exit code: `running.run`, which has the options."""
    from weft.frontends.program import running  # the program's process needs no compilers

    return running.run(path, args, **options)
