"""Functions of a module."""

from __future__ import annotations

from weft.ptx.model import Module


def function_ids(module: Module) -> dict[str, int]:
    """Numbers that stand for the addresses of functions."""
    return {name: i + 1 for i, name in enumerate(module.functions)}
