"""Functions of higher layers that lower layers call: `weft/__init__.py` sets them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

as_op: Callable[..., Any]
"""Makes a PyTorch op from a kernel: `weft.as_op`."""
