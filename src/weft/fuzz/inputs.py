"""Inputs of a program: a column of values for each input, one value for each thread."""

from __future__ import annotations

import random
import zlib

import numpy as np

from weft.fuzz.layout import DTYPES, column
from weft.fuzz.nodes import BITS, FLOATS, Decl, Program
from weft.fuzz.values import integer


def inputs(program: Program) -> np.ndarray:
    """The 64-bit words that a program reads."""
    count = len(program.inputs)
    words = np.zeros(program.threads * count, np.uint64)
    for i, decl in enumerate(program.inputs):
        values = _column(f"{program.name} {decl.name}", decl, program.threads)
        column(program, words, decl.type, i, count)[:] = values
    return words


def scalars(name: str) -> tuple[int, int]:
    """The uniform arguments `n` and `w` of a kernel."""
    rng = random.Random(f"{name} scalars")
    return integer(rng, "i32"), integer(rng, "u64")


def _column(name: str, decl: Decl, count: int) -> np.ndarray:
    if decl.type in FLOATS:
        return _floats(np.random.default_rng(zlib.crc32(name.encode())), decl.type, count)
    rng = random.Random(name)
    dtype = DTYPES[decl.type]
    if rng.random() < 0.15:  # the same in all lanes, or nearly
        return np.full(count, integer(rng, decl.type), dtype)
    return np.array([integer(rng, decl.type) for _ in range(count)], dtype)


def _floats(rng: np.random.Generator, type: str, count: int) -> np.ndarray:
    """Small whole numbers, numbers of every size, and raw bits with infinities and NaNs."""
    dtype = DTYPES[type]
    bits = rng.integers(0, 1 << BITS[type], count, np.dtype(f"u{dtype.itemsize}")).view(dtype)
    small = rng.integers(-100, 100, count).astype(dtype)
    sized = (rng.standard_normal(count) * 2.0 ** rng.integers(-30, 31, count)).astype(dtype)
    edges = rng.choice(
        np.array([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 1e-40, 0.5], dtype), count
    )
    return np.choose(rng.integers(0, 4, count), [bits, small, sized, edges])
