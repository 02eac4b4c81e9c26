"""The options of `as_op`, for type checkers; `weft.ops.core.bind.options` has their defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict


class OpOptions(TypedDict, total=False):
    """Options of `as_op`: docs/torch.md."""

    grid: Any
    block: Any
    shared_mem: Any
    args: Mapping[str, Any]
    out: Any
    clear: str | Sequence[str]
    contiguous: bool
    backward: Any
    save: str | Sequence[str] | None
    setup_context: Callable[..., None] | None
    differentiable: bool
    vmap: str | Callable[..., Any] | None
    autocast: Any
