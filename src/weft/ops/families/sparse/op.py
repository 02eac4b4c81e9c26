"""Products with sparse matrices."""

from __future__ import annotations

from weft.ops.families.sparse import blocks, csr, linear, places

GROUP = "products"
DEFINITIONS = (*blocks.DEFINITIONS, *csr.DEFINITIONS, *linear.DEFINITIONS, *places.DEFINITIONS)
