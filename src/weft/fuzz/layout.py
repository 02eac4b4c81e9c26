"""The layout of a thread's inputs and results in memory, for the kernels and for NumPy.

Every value has a 64-bit slot. In most programs the threads' values of one variable are side by
side, as in everyday kernels; in some each thread has a row of its own: its accesses are strided.
"""

from __future__ import annotations

import numpy as np

from weft.fuzz.nodes import BITS, Program

DTYPES = {name: np.dtype(f"{name[0]}{BITS[name] // 8}") for name in BITS}


def place(program: Program, pointer: str, type: str, i: int, count: int) -> str:
    """The C++ of slot `i` of `count` of a thread."""
    if program.rows:
        return f"*({type}*)({pointer} + THREAD * {count} + {i})"
    return f"(({type}*)({pointer} + {i * program.threads}))[THREAD]"


def column(program: Program, words: np.ndarray, type: str, i: int, count: int) -> np.ndarray:
    """Slot `i` of `count` of all threads: a view of the 64-bit words."""
    values, size = words.view(DTYPES[type]), DTYPES[type].itemsize
    if program.rows:
        return values[i * 8 // size :: count * 8 // size]
    first = i * program.threads * 8 // size
    return values[first : first + program.threads]
