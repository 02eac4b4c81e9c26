"""Register an op with torch, so that its first call does not import torch's compiler."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import torch


def custom_op(
    name: str, function: Callable[..., Any], *, mutates_args: Iterable[str], schema: str
) -> Any:
    """As `torch.library.custom_op`.

    torch keeps Dynamo from tracing the function, and imports Dynamo for that at the first call,
    which takes longer than the call. Nothing is traced before Dynamo is imported.
    """
    op = torch.library.custom_op(name, function, mutates_args=mutates_args, schema=schema)
    functions: dict[Any, Callable[..., Any]] = getattr(op, "_backend_fns", {})
    for device, untraced in functions.items():
        functions[device] = _chosen(function, untraced)
    return op


def _chosen(function: Callable[..., Any], untraced: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **options: Any) -> Any:
        called = untraced if "torch._dynamo" in sys.modules else function
        return called(*args, **options)

    return run
