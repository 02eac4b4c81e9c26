"""quantise: rows or groups of 8-bit elements, with a scale each; and linear_int8."""

from __future__ import annotations

from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core.checks import check_dtype
from weft.ops.core.function import Definition
from weft.ops.families.quantise import linear_int8
from weft.ops.families.quantise.plans import TYPES, candidates

NAME = "quantise"
GROUP = "elementwise"
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
LEAST_GROUP = 32


def _check(x: Any, dtype: Any, group: int | None) -> None:
    check_dtype(NAME, "x", x, DTYPES, next="convert it: x.float()")
    if dtype not in TYPES:
        raise ArgumentError(
            f"weft.ops.{NAME}: dtype is none that elements are quantised to",
            got=str(dtype),
            allowed=", ".join(str(d).removeprefix("torch.") for d in TYPES),
        )
    if not x.dim() or not x.shape[-1]:
        raise ArgumentError(
            f"weft.ops.{NAME}: x must have rows of at least one element",
            got=f"shape {list(x.shape)}",
            allowed="[…, K], K at least 1",
        )
    n = x.shape[-1]
    if group is not None and (group < LEAST_GROUP or n % group):
        raise ArgumentError(
            f"weft.ops.{NAME}: a row does not consist of such groups",
            got=f"group {group}, rows of {n}",
            allowed=f"a divisor of the row's length from {LEAST_GROUP} on, or None for whole rows",
        )


def _fake(x: Any, dtype: Any, group: int | None = None) -> tuple[Any, Any]:
    groups = x.shape[-1] // group if group else 1
    scale = x.new_empty((*x.shape[:-1], groups), dtype=torch.float32)
    return x.new_empty(x.shape, dtype=dtype), scale


DEFINITIONS = (
    Definition(
        name=NAME,
        schema="(Tensor x, ScalarType dtype, int? group=None) -> (Tensor, Tensor)",
        doc="""(q, scale) such that x is nearly q * scale, for each row or group of a row.

        x is […, K] in float32, float16 or bfloat16. dtype is int8, float8_e4m3fn or float8_e5m2; q
        has x's shape. Without `group` each row has a scale, and scale is […, 1]; with it, each
        `group` elements of a row have one, and scale is […, K / group]. A group has 32 elements or
        more and divides K.

        The scale is float32: the largest absolute value over the largest number of dtype (127, 448
        or 57344), at least 2^-126; that of zeros is 1. An element of q is x times the reciprocal of
        its scale in float32, rounded to the nearest, ties to even. A row or group with a NaN has
        scale NaN, and one with an infinity has scale infinity: all of it is dequantised to NaN.
        Its elements of q are 0; in fp8 they are NaN where x is NaN or infinite. There is no
        gradient.
        """,
        fake=_fake,
        candidates=candidates,
        check=_check,
        autocast=None,
    ),
    *linear_int8.DEFINITIONS,
)
