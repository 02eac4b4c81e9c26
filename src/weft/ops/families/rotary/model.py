"""The cost model of rotary embeddings: the bytes that they move, at full bandwidth."""

from __future__ import annotations

from weft.ops.core.target import Target


def stream_time(gpu: Target, moved: float) -> float:
    """Seconds of a launch that moves so many bytes."""
    return gpu.launch + moved / gpu.bandwidth
