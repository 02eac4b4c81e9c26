"""Products with sparse matrices."""

from __future__ import annotations

from weft.ops.families.sparse import linear, places

GROUP = "products"
DEFINITIONS = (*linear.DEFINITIONS, *places.DEFINITIONS)
