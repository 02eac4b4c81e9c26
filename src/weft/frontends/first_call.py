"""Ends a script where it calls a model for the first time, and keeps the call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Called = Callable[[Any, tuple[Any, ...], dict[str, Any]], None]


def stop_at_first_call(called: Called) -> Callable[[], None]:
    """Report the first call of a module that has parameters, and end the script there.

    It returns a function that lets modules be called again. Hooks of modules do not see arguments
    by name, so the method that calls a module is replaced.
    """
    plain: Any = torch.nn.Module.__call__

    def call(module: Any, *args: Any, **options: Any) -> Any:
        if next(module.parameters(), None) is None:
            return plain(module, *args, **options)
        restore()
        called(module, args, options)
        raise SystemExit(0)  # no handler for errors of a script catches it

    def restore() -> None:
        torch.nn.Module.__call__ = plain

    torch.nn.Module.__call__ = call
    return restore
