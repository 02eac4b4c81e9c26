"""Matrix products and linear layers."""

from __future__ import annotations

from weft.ops.families.matmul import linear, matmul, scaled_mm

GROUP = "products"
DEFINITIONS = (*linear.DEFINITIONS, *matmul.DEFINITIONS, *scaled_mm.DEFINITIONS)
