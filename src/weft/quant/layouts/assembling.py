"""Numbers, scales and zeros of any layout to a `Quantised`."""

from __future__ import annotations

import torch

from weft.errors import ArgumentError
from weft.kernels import cdiv
from weft.quant.formats import BLOCK, CHANNEL, FORMATS, GROUPS, SIDE, TENSOR, Group
from weft.quant.packing import pack
from weft.quant.quantised import Quantised


def assemble(
    q: torch.Tensor,
    scale: torch.Tensor,
    zero: torch.Tensor | None,
    format: str,
    block: tuple[int, int],
    dtype: torch.dtype,
    where: str,
) -> Quantised:
    """Make a weight from its parts, whose values do not change; raise for parts that do not fit.

    q      integers in the range of the format as int8, or float8 [N, K]
    scale  one for each block of rows x columns, at the edges for a part of one
    zero   None, or like scale: a value is (q - zero) * scale
    dtype  that the weight is dequantised to
    where  the tensor, for errors
    """
    form, (n, k) = FORMATS[format], q.shape
    if form.bits == 4 and k % 2:
        raise ArgumentError(
            "int4 weights have an even number of columns, because a byte holds two",
            where=where, got=f"K = {k}",
        )  # fmt: skip
    _check(scale, "scale", (n, k), block, where)
    if zero is not None:
        _check(zero, "zero", (n, k), block, where)
    group = _group(format, (n, k), block, where)
    if zero is not None and not bool(zero.any()):
        zero = None
    return Quantised(
        weight=pack(q).contiguous() if form.bits == 4 else q.contiguous(),
        scale=_spread(scale, (n, k), block, group),
        zero=None if zero is None else _spread(zero, (n, k), block, group),
        format=format,
        group=group,
        shape=(n, k),
        dtype=dtype,
    )


def _check(
    x: torch.Tensor, name: str, shape: tuple[int, int], block: tuple[int, int], where: str
) -> None:
    want = (cdiv(shape[0], block[0]), cdiv(shape[1], block[1]))
    if tuple(x.shape) != want:
        raise ArgumentError(
            f"the {name}s of a weight do not fit its groups",
            where=where,
            got=f"{list(x.shape)} for {shape[0]} x {shape[1]} in blocks of {block[0]} x {block[1]}",
            allowed=str(list(want)),
        )
    if x.is_floating_point() and not bool(x.isfinite().all()):
        raise ArgumentError(
            f"a {name} of a weight is not finite", where=where, allowed="finite numbers"
        )


def _group(format: str, shape: tuple[int, int], block: tuple[int, int], where: str) -> Group:
    """The granularity that holds these blocks; raise for blocks that none holds."""
    (n, k), (rows, columns) = shape, block
    if columns >= k:
        return TENSOR if rows >= n > 1 else CHANNEL
    if k % columns == 0:
        for group in reversed(GROUPS):
            if columns % group == 0:
                return group
    if block == (SIDE, SIDE) and not FORMATS[format].integer:
        return BLOCK
    raise ArgumentError(
        "no kernel has groups of this size",
        where=where,
        got=f"{columns} columns of {k} share a scale",
        allowed=f"multiples of {GROUPS[0]} that divide {k}, or all {k}",
        next="quantise the model in groups of 32, 64 or 128",
    )


def _spread(
    x: torch.Tensor, shape: tuple[int, int], block: tuple[int, int], group: Group
) -> torch.Tensor:
    """Repeat scales for rows and groups of their own, in float32."""
    x = x.to(torch.float32)
    if group in (TENSOR, BLOCK):
        return x.contiguous()
    if isinstance(group, int):
        x = x.repeat_interleave(block[1] // group, 1)
    return x.repeat_interleave(block[0], 0)[: shape[0]].contiguous()
