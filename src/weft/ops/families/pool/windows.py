"""The windows of a pooling, their checks and output sizes, and the views that the kernels take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.kernels import cdiv
from weft.ops.core.checks import check_dtype
from weft.ops.core.layouts import dense_strides
from weft.ops.core.plan import Buffer, Layout

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
Pair = tuple[int, int]
LAST = (0, 2, 3, 1)
"""The memory order of tensors whose channels are last."""


@dataclass(frozen=True)
class Windows:
    """Windows along height and width; of a single dimension, the height is 1.

    out  the number of windows of an adaptive pooling, which has no other sizes
    """

    kernel: Pair = (1, 1)
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    dilation: Pair = (1, 1)
    ceil: bool = False
    out: Pair | None = None

    def sizes(self, height: int, width: int) -> Pair:
        """The rows and columns of the result."""
        return self.out or (self._size(0, height), self._size(1, width))

    def _size(self, d: int, size: int) -> int:
        k, s, p = self.kernel[d], self.stride[d], self.padding[d]
        room = size + 2 * p - self.dilation[d] * (k - 1) - 1
        count = (room + (s - 1 if self.ceil else 0)) // s + 1
        # The last window must begin inside the input or the padding in front of it.
        return count - 1 if self.ceil and (count - 1) * s >= size + p else count

    def simplified(self, height: int, width: int) -> Windows:
        """Adaptive windows of equal sizes as fixed ones, which have faster kernels."""
        if self.out is None or height % self.out[0] or width % self.out[1]:
            return self
        each = (height // self.out[0], width // self.out[1])
        return Windows(each, each)

    def disjoint(self, height: int, width: int) -> bool:
        """True if windows share no position, cover whole rows, and have no padding."""
        rows, columns = self.sizes(height, width)
        plain = self.out is None and self.padding == (0, 0) and self.dilation == (1, 1)
        return (plain and self.kernel == self.stride and rows * self.kernel[0] <= height
                and columns * self.kernel[1] == width)  # fmt: skip

    @property
    def taps(self) -> int:
        """Positions of a window; 0 if windows differ."""
        return 0 if self.out else self.kernel[0] * self.kernel[1]

    def rows(self, first: int, last: int, height: int) -> int:
        """The rows of an input from those of the first window to those of the last one."""
        if self.out:
            return cdiv((last + 1) * height, self.out[0]) - first * height // self.out[0]
        begin, end = (o * self.stride[0] - self.padding[0] for o in (first, last))
        reach = (self.kernel[0] - 1) * self.dilation[0] + 1
        return max(0, min(end + reach, height) - max(begin, 0))

    def encoded(self) -> list[int]:
        """The same as numbers, which an op can take."""
        if self.out:
            return list(self.out)
        return [*self.kernel, *self.stride, *self.padding, *self.dilation, int(self.ceil)]

    @staticmethod
    def decoded(numbers: Sequence[int]) -> Windows:
        if len(numbers) == 2:
            return Windows(out=(numbers[0], numbers[1]))
        k, s, p, d = ((numbers[i], numbers[i + 1]) for i in range(0, 8, 2))
        return Windows(k, s, p, d, bool(numbers[8]))

    def axes(self, height: int, width: int) -> str:
        """The C++ types of the windows along height and width."""
        if self.out:
            sizes = zip((height, width), self.out, strict=True)
            fits = all((size + 1) * out < 2**32 for size, out in sizes)
            return ", ".join([f"Adaptive<{'unsigned' if fits else 'long long'}>"] * 2)
        rows = zip(self.kernel, self.stride, self.padding, self.dilation, strict=True)
        return ", ".join(f"Fixed<{', '.join(map(str, r))}>" for r in rows)


# ---- arguments ---------------------------------------------------------------------------------
def pair(op: str, name: str, value: Any, rank: int) -> Pair:
    """An argument of one number, or of one per dimension; `rank` is 1 or 2."""
    values = [value] if isinstance(value, int) else list(value)
    if len(values) not in (1, rank):
        raise ArgumentError(
            f"weft.ops.{op}: {name} has {len(values)} sizes: {values}",
            allowed="one number" + (" or two" if rank == 2 else ""),
        )
    first, last = values[0], values[-1]
    neutral = 0 if name == "padding" else 1
    return (neutral, last) if rank == 1 else (first, last)


def windows(
    op: str, rank: int, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool
) -> Windows:
    """Fixed windows from an op's arguments; raises for invalid ones."""
    size = pair(op, "kernel_size", kernel, rank)
    step = pair(op, "stride", stride, rank) if stride is not None and stride != [] else size
    made = Windows(
        size, step, pair(op, "padding", padding, rank), pair(op, "dilation", dilation, rank), ceil
    )
    limits = (("kernel_size", made.kernel, 1), ("stride", made.stride, 1),
              ("padding", made.padding, 0), ("dilation", made.dilation, 1))  # fmt: skip
    for name, values, least in limits:
        if min(values) < least:
            raise ArgumentError(
                f"weft.ops.{op}: {name} must be at least {least}, got {min(values)}"
            )
    for k, p, d in zip(made.kernel, made.padding, made.dilation, strict=True):
        if 2 * p > (k - 1) * d + 1:
            raise ArgumentError(
                f"weft.ops.{op}: 'padding' exceeds half of the window",
                got=str(p),
                allowed=f"0 to {((k - 1) * d + 1) // 2} for a window of {(k - 1) * d + 1}",
            )
    return made


def check(op: str, x: Any, rank: int, made: Windows) -> None:
    """Raise if the windows do not fit the tensor."""
    check_dtype(op, "input", x, DTYPES, next="convert it: input.float()")
    if x.dim() not in (rank + 1, rank + 2) or 0 in x.shape[-rank - 1 :]:
        shapes = "[N, C, L] or [C, L]" if rank == 1 else "[N, C, H, W] or [C, H, W]"
        raise ArgumentError(
            f"weft.ops.{op}: input has shape {list(x.shape)}",
            allowed=f"{shapes}, of which only N may be 0",
        )
    height, width = (1, x.shape[-1]) if rank == 1 else x.shape[-2:]
    if min(made.sizes(height, width)) < 1:
        raise ArgumentError(
            f"weft.ops.{op}: the result would be empty",
            got=f"{list(x.shape)} with windows of {list(made.kernel)}"
            if not made.out
            else str(list(made.out)),
            allowed="windows that fit into the padded input" if not made.out else "1 or more",
        )


# ---- views -------------------------------------------------------------------------------------
@dataclass(frozen=True)
class PoolView:
    """A tensor as [planes, height, width, inner]; inner is 1 unless channels are last."""

    planes: int
    height: int
    width: int
    inner: int


def is_last(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """True if a tensor of four dimensions is dense with channels last, and not contiguous."""
    if len(shape) != 4 or _dense(shape, strides, range(4)):
        return False
    return _dense(shape, strides, LAST)


def _dense(shape: Sequence[int], strides: Sequence[int], order: Sequence[int]) -> bool:
    expected = dense_strides(shape, order)
    return all(n == 1 or a == b for n, a, b in zip(shape, strides, expected, strict=True))


def view(shape: Sequence[int], rank: int, last: bool) -> PoolView:
    """The view of a dense tensor."""
    height, width = (1, shape[-1]) if rank == 1 else (shape[-2], shape[-1])
    planes = shape[-rank - 1] * (shape[0] if len(shape) == rank + 2 else 1)
    if last:
        return PoolView(shape[0], height, width, shape[1])
    return PoolView(planes, height, width, 1)


def buffer(shape: Sequence[int], dtype: torch.dtype, last: bool) -> Buffer:
    strides = dense_strides(shape, LAST) if last else None
    return Buffer(tuple(shape), dtype, strides=strides)


def empty(like: Any, shape: Sequence[int], last: bool, dtype: torch.dtype | None = None) -> Any:
    """A tensor as `buffer` describes it, for fake tensors."""
    made = like.new_empty(tuple(shape), dtype=dtype or like.dtype)
    return made.to(memory_format=torch.channels_last) if last else made


def out_shape(x: Sequence[int], rank: int, made: Windows) -> tuple[int, ...]:
    height, width = (1, x[-1]) if rank == 1 else (x[-2], x[-1])
    rows, columns = made.sizes(height, width)
    return (*x[:-rank], columns) if rank == 1 else (*x[:-rank], rows, columns)


def as_order(x: Layout, last: bool) -> Layout:
    """The layout with its dimensions in the order of memory: of a copy, dense."""
    if not last:
        return x
    return x._replace(
        shape=tuple(x.shape[d] for d in LAST), strides=tuple(x.strides[d] for d in LAST)
    )
