"""Compute with layouts: broadcasting, merging dimensions, memory order, indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # needs torch
    from weft.ops.core.plan import Layout


class Walk(NamedTuple):
    """The common dimensions of several operands, outermost first."""

    sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]


def broadcast(layout: Layout, shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of an operand expanded to a shape; 0 for repeated dimensions."""
    missing = len(shape) - len(layout.shape)
    pairs = zip(layout.shape, layout.strides, strict=True)
    kept = [0 if size == 1 else stride for size, stride in pairs]
    return (0,) * missing + tuple(kept)


def merged(sizes: Sequence[int], strides: Sequence[Sequence[int]]) -> Walk:
    """Merge adjacent dimensions that are contiguous in all operands."""
    rows: list[tuple[int, tuple[int, ...]]] = []
    for size, *steps in zip(sizes, *strides, strict=True):
        if size == 1:
            continue
        if rows:
            before, outer = rows[-1]
            if all(o == s * size for o, s in zip(outer, steps, strict=True)):
                rows[-1] = (before * size, tuple(steps))
                continue
        rows.append((size, tuple(steps)))
    # A walk needs at least one dimension.
    if not rows:
        rows = [(1, (0,) * len(strides))]
    merged_sizes = tuple(size for size, _ in rows)
    return Walk(merged_sizes, tuple(tuple(s[i] for _, s in rows) for i in range(len(strides))))


def permuted(layout: Layout, order: Sequence[int]) -> Layout:
    """The layout with its dimensions in another order."""
    shape, strides = (tuple(v[d] for d in order) for v in (layout.shape, layout.strides))
    return layout._replace(shape=shape, strides=strides)


def memory_order(layout: Layout) -> tuple[int, ...] | None:
    """Dimensions by descending stride for a dense tensor, else None."""
    order = sorted(range(len(layout.shape)), key=lambda d: (-layout.strides[d], d))
    expected = 1
    for d in reversed(order):
        # The stride of a dimension of size 1 has no effect.
        if layout.shape[d] == 1:
            continue
        if layout.strides[d] != expected:
            return None
        expected *= layout.shape[d]
    return tuple(order)


def dense_strides(shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """Strides of a dense tensor with this memory order."""
    strides, step = [0] * len(shape), 1
    for d in reversed(order):
        strides[d] = step
        step *= max(shape[d], 1)
    return tuple(strides)


def dense(sizes: Sequence[int]) -> tuple[int, ...]:
    """Strides of a row-major tensor without gaps."""
    return dense_strides(sizes, range(len(sizes)))


def divisor(size: int, bits: int) -> tuple[int, int]:
    """(magic, shift) such that x // size is (x * magic >> bits) >> shift for x < 2^(bits - 1)."""
    if size == 1:
        return 0, 0  # the only dimension: no division is needed
    log = (size - 1).bit_length()
    return -(-(1 << (bits - 1 + log)) // size), log - 1
