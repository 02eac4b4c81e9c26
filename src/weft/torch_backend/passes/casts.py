"""Recognise conversions between 16 bits and float32, as autocast makes them."""

from __future__ import annotations

import torch
from torch.fx import Node

HALVES = (torch.float16, torch.bfloat16)


def widens(node: Node) -> bool:
    """True for a conversion of 16 bits to float32 in the same memory order."""
    if node.target is not torch.ops.aten._to_copy.default or not isinstance(node.args[0], Node):
        return False
    source, value = node.args[0].meta["val"], node.meta["val"]
    return (
        source.dtype in HALVES
        and value.dtype is torch.float32
        and source.device == value.device
        and source.stride() == value.stride()
    )
