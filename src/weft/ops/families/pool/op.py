"""Average and max pooling."""

from __future__ import annotations

from weft.ops.families.pool import avg_pool, max_pool

GROUP = "pooling"
DEFINITIONS = (*avg_pool.DEFINITIONS, *max_pool.DEFINITIONS)
