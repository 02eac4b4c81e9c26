"""Splits what blocks stream into parts where there are few blocks, and adds up their sums."""

from __future__ import annotations

import struct
from typing import NamedTuple

import torch

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.plan import Argument, Buffer, Pointer, Step
from weft.ops.core.target import Target

SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
MOST = 256 << 20
"""Bytes of sums of a call."""
RATE = 1.8e12
"""Bytes of sums that are written and read per second (H200)."""


class Stream(NamedTuple):
    """A kernel of gradients.

    blocks   of one part
    tiles    that a block streams
    seconds  of an SM for a block
    sums     floats of one part
    """

    blocks: int
    tiles: int
    seconds: float
    sums: int

    def time(self, parts: int, gpu: Target) -> float:
        """The modelled time in parts: that of the SM with the most blocks."""
        time = cdiv(self.blocks * parts, gpu.sms) * self.seconds / parts
        return time if parts == 1 else time + gpu.launch + 2e-6 + 8 * parts * self.sums / RATE

    def parts(self, gpu: Target) -> int:
        """The best number of parts."""
        if self.blocks >= 2 * gpu.sms:
            return 1
        fit = [n for n in SPLITS if n == 1 or (n <= self.tiles and 4 * n * self.sums <= MOST)]
        return min(fit, key=lambda n: self.time(n, gpu))


class Result(NamedTuple):
    """A gradient [batch, heads, rows, width], whose strides are of the first three."""

    pointer: Pointer
    strides: tuple[int, int, int]
    sizes: tuple[int, int, int, int]
    dtype: torch.dtype


def scratch(stream: Stream, parts: int) -> Buffer:
    """The sums of all parts."""
    return Buffer((parts * stream.sums,), torch.float32)


def join(sums: Pointer, head: int, parts: int, *results: Result) -> Step:
    """Adds up sums of rows of `head`: those of one result, or of two, one after the other."""
    pointers: list[Argument] = [None, None]
    text, vectors = [bytes(48)] * 2, 0
    for i, (pointer, strides, (batch, heads, rows, width), _) in enumerate(results):
        each = batch * heads * rows * head // 4
        pointers[i] = pointer
        text[i] = struct.pack("<3q5iI", *strides, parts, heads, rows, head, width, each)
        vectors += each
    kernel = source.kernel("attention/join.cu", f"join<{source.ctype(results[0].dtype)}>")
    return Step(kernel, (cdiv(vectors, 256),), (256,), (sums, *pointers, *text))
