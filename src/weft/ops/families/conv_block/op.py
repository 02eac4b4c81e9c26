"""A convolution with batch norm, an activation and pooling."""

from __future__ import annotations

from weft.ops.families.conv_block import backward, forward

GROUP = "convolution"
DEFINITIONS = (*backward.DEFINITIONS, *forward.DEFINITIONS)
