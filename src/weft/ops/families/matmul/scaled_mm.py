"""scaled_mm: products of fp8 and int8 with scales of operands, of rows, or of blocks."""

from __future__ import annotations

from typing import Any

import torch

from weft.errors import ArgumentError
from weft.kernels import cdiv
from weft.ops.core.checks import check_dtype
from weft.ops.core.function import Definition
from weft.ops.families.matmul.scaled import BLOCK, NAMES, candidates

RESULTS = (torch.bfloat16, torch.float16, torch.float32)


def _check(
    a: Any, b: Any, scale_a: Any, scale_b: Any, bias: Any, out_dtype: Any, use_fast_accum: bool
) -> None:
    for name, x in (("a", a), ("b", b)):
        check_dtype("scaled_mm", name, x, NAMES)
    integers = a.dtype is torch.int8
    if integers != (b.dtype is torch.int8):
        raise ArgumentError(
            "weft.ops.scaled_mm: a and b have dtypes that no kernel multiplies with each other",
            got=f"a {a.dtype}, b {b.dtype}",
            allowed="int8 for both, or float8_e4m3fn or float8_e5m2 for each",
        )
    for name, x in (("scale_a", scale_a), ("scale_b", scale_b)):
        check_dtype("scaled_mm", name, x, (torch.float32,))
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0]:
        raise ArgumentError(
            "weft.ops.scaled_mm: a and b have incompatible shapes",
            got=f"a {list(a.shape)}, b {list(b.shape)}",
            allowed="a[M, K] and b[K, N]",
        )
    _check_strides("a", a, 1, "its rows are contiguous", "a.contiguous()")
    _check_strides("b", b, 0, "its columns are contiguous", "b.T.contiguous().T")
    (m, k), n = a.shape, b.shape[1]
    blocks = cdiv(k, BLOCK)
    of_blocks = [] if integers else [(m, blocks), (cdiv(m, BLOCK), blocks)]
    _check_scale("scale_a", scale_a, [(m, 1), *of_blocks])
    of_blocks = [] if integers else [(blocks, n), (blocks, cdiv(n, BLOCK))]
    _check_scale("scale_b", scale_b, [(1, n), *of_blocks])
    dtype = out_dtype or torch.bfloat16
    if dtype not in RESULTS:
        raise ArgumentError(
            "weft.ops.scaled_mm: out_dtype is a dtype that no kernel stores",
            got=str(dtype),
            allowed=", ".join(str(d).removeprefix("torch.") for d in RESULTS),
        )
    if bias is not None and (tuple(bias.shape) != (n,) or bias.dtype is not dtype):
        raise ArgumentError(
            "weft.ops.scaled_mm: bias has another shape or dtype than the columns of the result",
            got=f"{list(bias.shape)} {bias.dtype}",
            allowed=f"[{n}] {dtype}",
            next="convert it: bias.to(out_dtype)",
        )


def _check_strides(name: str, x: Any, k: int, allowed: str, next: str) -> None:
    """Raise unless K, dimension `k`, is contiguous."""
    if 0 not in x.shape and x.shape[k] > 1 and x.stride(k) != 1:
        raise ArgumentError(
            f"weft.ops.scaled_mm: {name} is not contiguous along K",
            got=f"strides {list(x.stride())}",
            allowed=allowed,
            next=next,
        )


def _check_scale(name: str, scale: Any, allowed: list[tuple[int, int]]) -> None:
    if scale.numel() != 1 and tuple(scale.shape) not in allowed:
        raise ArgumentError(
            f"weft.ops.scaled_mm: {name} has a shape of no scaling",
            got=str(list(scale.shape)),
            allowed="one element, "
            + ", ".join(str(list(shape)) for shape in allowed)
            + ": of the operand, of rows"
            + (", of 1 x 128 and of 128 x 128 blocks" if len(allowed) > 1 else ""),
        )


def _fake(
    a: Any, b: Any, scale_a: Any, scale_b: Any, bias: Any = None, out_dtype: Any = None,
    use_fast_accum: bool = False,
) -> torch.Tensor:  # fmt: skip
    made: torch.Tensor = a.new_empty((a.shape[0], b.shape[1]), dtype=out_dtype or torch.bfloat16)
    return made


DEFINITIONS = (
    Definition(
        name="scaled_mm",
        schema=(
            "(Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, Tensor? bias=None,"
            " ScalarType? out_dtype=None, bool use_fast_accum=False) -> Tensor"
        ),
        doc="""(a * scale_a) @ (b * scale_b) + bias for fp8 or int8, as torch._scaled_mm.

        a is [M, K] with contiguous rows, b [K, N] with contiguous columns, each float8_e4m3fn or
        float8_e5m2, or both int8. Scales are float32: one element for an operand; [M, 1] and [1, N]
        for rows of a and columns of b; and of fp8 [M, K/128] and [K/128, N] for 128 of K of each,
        or [M/128, K/128] and [K/128, N/128] for blocks of 128 x 128, sizes rounded up. Any strides
        of scales serve, and either operand may have any of these. out_dtype is bfloat16 (the
        default), float16 or float32; bias is [N] of that dtype.

        Tensor cores of Hopper keep 13 bits below the largest term when they add products of fp8.
        So sums of 128 of K are added in single precision, unless use_fast_accum is True: then the
        tensor cores add all of K. Blocks of K with scales of their own are always added in single
        precision. Sums of int8 are int32, modulo 2^32, and exact for K up to 131,071; they are
        rounded to float32 and multiplied by scale_a * scale_b. There is no gradient.
        """,
        fake=_fake,
        candidates=candidates,
        check=_check,
        autocast=None,
    ),
)
