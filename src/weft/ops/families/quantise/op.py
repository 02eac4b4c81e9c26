"""quantise: rows or groups of 8-bit elements, with a scale each; ops that quantise as they go."""

from __future__ import annotations

from typing import Any

from weft.ops.core.function import Definition
from weft.ops.families.quantise import arguments, gated, linear_int8
from weft.ops.families.quantise.plans import candidates

NAME = "quantise"
GROUP = "elementwise"


def _check(x: Any, dtype: Any, group: int | None) -> None:
    arguments.check(NAME, "x", x, x.shape[-1] if x.dim() else 0, dtype, group)


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
        fake=lambda x, dtype, group=None: arguments.fake(x, x.shape[-1], dtype, group),
        candidates=candidates,
        check=_check,
        autocast=None,
    ),
    *gated.DEFINITIONS,
    *linear_int8.DEFINITIONS,
)
