"""Matrix products and linear layers."""

from __future__ import annotations

from weft.ops.families.matmul import aligned_copy, linear, matmul, row_sums, scaled_mm, wide

GROUP = "products"
DEFINITIONS = (
    *aligned_copy.DEFINITIONS, *linear.DEFINITIONS, *matmul.DEFINITIONS, *row_sums.DEFINITIONS,
    *scaled_mm.DEFINITIONS, *wide.DEFINITIONS,
)  # fmt: skip
