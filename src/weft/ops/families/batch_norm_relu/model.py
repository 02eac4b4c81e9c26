"""The cost model of batch norm with ReLU: bytes that its kernels move.

The kernels of `norm` are its pattern; `norm/model.py` has the constants that both share.
"""

from __future__ import annotations

from weft.ops.families.norm.model import stream_time

MASK_BYTES = 1 / 8
"""Bytes for an element of the mask, at the least."""

__all__ = ["MASK_BYTES", "backward_bytes", "forward_bytes", "stream_time"]


def forward_bytes(elements: int, size: int, residual: bool, training: bool) -> float:
    """Bytes of the passes over elements of so many bytes."""
    tensors = 2 + residual + training
    return elements * (tensors * size + MASK_BYTES * (residual and training))


def backward_bytes(elements: int, size: int, masked: bool, residual: bool) -> float:
    """The same of both passes backward."""
    return elements * ((5 + residual) * size + 2 * MASK_BYTES * masked)
