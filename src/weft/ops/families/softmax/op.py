"""Softmax and log softmax."""

from __future__ import annotations

from weft.ops.families.softmax import backward, forward

GROUP = "reductions"
DEFINITIONS = (*backward.DEFINITIONS, *forward.DEFINITIONS)
