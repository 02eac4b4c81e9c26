"""Partial sums of gradients whose streamed rows are split among blocks, and their addition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import torch

from weft.kernels import cdiv
from weft.kernels.structs import Int, LongLong, Struct, Unsigned, array
from weft.ops.core import source
from weft.ops.core.plan import Argument, Buffer, Pointer, Step
from weft.ops.families.attention.backward_model import Stream


@dataclass(frozen=True)
class Joined(Struct):
    """A result and its sums, as join.cu takes them. Strides are in elements."""

    strides: Annotated[tuple[int, ...], array(LongLong, 3), "of batch, head and row"]
    parts: Int
    heads: Int
    rows: Int
    depth: Int
    width: Int
    vectors: Annotated[Unsigned, "of 4 sums, in a part"]


class Result(NamedTuple):
    """A gradient [batch, heads, rows, width], whose strides are of the first three."""

    pointer: Pointer
    strides: tuple[int, int, int]
    sizes: tuple[int, int, int, int]
    dtype: torch.dtype


def scratch(stream: Stream, parts: int) -> Buffer:
    """The buffer for the sums of all parts."""
    return Buffer((parts * stream.sums,), torch.float32)


def join(sums: Pointer, head: int, parts: int, *results: Result) -> Step:
    """The step that adds up sums of rows of `head`: of one result, or of two in a row."""
    pointers: list[Argument] = [None, None]
    text, vectors = [bytes(Joined.sizeof())] * 2, 0
    for i, (pointer, strides, (batch, heads, rows, width), _) in enumerate(results):
        each = batch * heads * rows * head // 4
        pointers[i] = pointer
        text[i] = Joined(strides, parts, heads, rows, head, width, each).pack()
        vectors += each
    name = f"join<{source.ctype(results[0].dtype)}>"
    kernel = source.kernel("attention/join.cu", name, **Joined.define())
    return Step(kernel, (cdiv(vectors, 256),), (256,), (sums, *pointers, *text))
