"""`cupyx.cusparse`: the functions that sort sparse matrices in place."""

from __future__ import annotations

from typing import Any


def csrsort(x: Any) -> None:
    """Sort the indices of a CSR matrix."""
    x._host.sort_indices()


def cscsort(x: Any) -> None:
    """Sort the indices of a CSC matrix."""
    x._host.sort_indices()
