"""Compute tokens so that those of a text do not depend on the other texts of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

from weft.ops.core import library
from weft.ops.core.invariant import ROWS, SUFFIX


def op(name: str, batch_invariant: bool) -> Any:
    """The op, or the one that adds up a row in the same order in every batch, if there is one."""
    own = name + SUFFIX
    return library.call(own if batch_invariant and own in library.definitions() else name)


def in_chunks(layer: Any, x: torch.Tensor, **options: Any) -> torch.Tensor:
    """The result of a layer for rows, by calls of the same number of rows."""
    made = []
    for rows in x.split(ROWS):
        whole = functional.pad(rows, (0, 0, 0, ROWS - len(rows)))
        made.append(layer(whole, **options)[: len(rows)])
    return joined(made)


def joined(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Parts of rows as one tensor."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))
