"""The sizes of a fused block, and the checks of its arguments."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from weft.errors import ArgumentError
from weft.ops.families.norm.arguments import check_dtype, check_weights

LARGEST = 7
"""The most rows and columns of a filter: its weights are kept in registers."""
NAME = "conv_bn_relu_pool"


@dataclass(frozen=True)
class ConvBlockSizes:
    """The sizes of input and weights; the convolution has stride 1."""

    images: int
    channels: int
    height: int
    width: int
    filters: int
    filter_rows: int
    filter_columns: int
    pad_y: int
    pad_x: int

    @property
    def rows(self) -> int:
        """Rows of the convolution's result."""
        return self.height + 2 * self.pad_y - self.filter_rows + 1

    @property
    def columns(self) -> int:
        return self.width + 2 * self.pad_x - self.filter_columns + 1

    @property
    def pooled(self) -> tuple[int, int]:
        """Rows and columns of the result."""
        return self.rows // 2, self.columns // 2

    @property
    def conv(self) -> tuple[int, int, int, int]:
        """The shape of the convolution's result."""
        return self.images, self.filters, self.rows, self.columns

    @property
    def out(self) -> tuple[int, int, int, int]:
        return self.images, self.filters, *self.pooled

    def packed(self, tiles_y: int = 0, tiles_x: int = 0) -> bytes:
        """The kernels' struct BlockShape."""
        return struct.pack(
            "<13i", self.images, self.channels, self.height, self.width, self.filters, self.rows,
            self.columns, *self.pooled, self.pad_y, self.pad_x, tiles_y, tiles_x,
        )  # fmt: skip


def shape_of(x: Sequence[int], weight: Sequence[int], padding: Any) -> ConvBlockSizes:
    """The shape of a call."""
    pad = (padding, padding) if isinstance(padding, int) else (padding[0], padding[-1])
    return ConvBlockSizes(x[0], x[1], x[2], x[3], weight[0], weight[2], weight[3], *pad)


def check(x: Any, weight: Any, bias: Any, padding: Any, **norm: Any) -> None:
    """Raise ArgumentError for unsupported tensors and paddings."""
    check_dtype(NAME, x)
    if x.dim() != 4 or weight.dim() != 4 or x.shape[1] != weight.shape[1] or not weight.numel():
        raise ArgumentError(
            f"weft.ops.{NAME}: input and weight have incompatible shapes",
            got=f"input {list(x.shape)} and weight {list(weight.shape)}",
            allowed="[N, C, H, W] and [F, C, R, S], with the same C",
        )
    if weight.dtype != x.dtype or (bias is not None and bias.dtype != x.dtype):
        raise ArgumentError(
            f"weft.ops.{NAME}: input, weight and bias must have one dtype",
            got=f"{x.dtype} and {weight.dtype}",
            next="convert them: weight.to(input.dtype)",
        )
    filters = (weight.shape[0],)
    if bias is not None and tuple(bias.shape) != filters:
        raise ArgumentError(
            f"weft.ops.{NAME}: bias has shape {tuple(bias.shape)}, expected {filters}",
            allowed="one number for each filter",
        )
    check_weights(NAME, x, filters, **norm)
    if max(weight.shape[2:]) > LARGEST:
        raise ArgumentError(
            f"weft.ops.{NAME}: the filters are too large",
            got=str(list(weight.shape[2:])),
            allowed=f"at most {LARGEST} x {LARGEST}",
            next="call weft.ops.conv2d, batch_norm, relu and max_pool2d",
        )
    pads = [padding] if isinstance(padding, int) else list(padding)
    if len(pads) not in (1, 2) or min(pads) < 0:
        raise ArgumentError(
            f"weft.ops.{NAME}: padding must be one or two sizes",
            got=str(padding),
            allowed="0 or more, for height and width",
        )
    made = shape_of(x.shape, weight.shape, padding)
    if min(made.pooled) < 1:
        raise ArgumentError(
            f"weft.ops.{NAME}: the result would be empty",
            got=f"a convolution of {made.rows} x {made.columns}",
            allowed="2 x 2 or larger",
        )
