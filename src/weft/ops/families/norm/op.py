"""Layer, RMS, group, batch, instance and local response norms."""

from __future__ import annotations

from weft.ops.families.norm import (
    batch_norm,
    batch_norm_backward,
    batch_norm_training,
    group_norm,
    group_norm_silu,
    instance_norm,
    layer_norm,
    layer_norm_backward,
    local_response_norm,
)
from weft.ops.families.norm.streamed import mixed

GROUP = "normalisation"
DEFINITIONS = (
    *batch_norm.DEFINITIONS,
    *batch_norm_backward.DEFINITIONS,
    *batch_norm_training.DEFINITIONS,
    *group_norm.DEFINITIONS,
    *group_norm_silu.DEFINITIONS,
    *layer_norm.DEFINITIONS,
    *layer_norm_backward.DEFINITIONS,
    *local_response_norm.DEFINITIONS,
    *mixed.DEFINITIONS,
)
MAKERS = instance_norm.MAKERS
