"""Compare functions that the backend "weft" has compiled with eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import draw
from weft.torch_backend import compile_graph, reports


def normal(*shape: int, seed: int = 0) -> Any:
    """Normal numbers that are the same on every CPU."""
    return draw.seeded(seed).normal(*shape)


def compiled(function: Any, **options: Any) -> Any:
    """A function or module compiled by the backend, with options of torch.compile."""
    return torch.compile(function, backend=compile_graph, **options)


def names(kind: str) -> list[str]:
    """The steps of the last graph of a kind."""
    report = next(r for r in reversed(reports()) if r.kind == kind)
    return [s.name for s in report.steps]


def same(
    function: Callable[..., Any], *inputs: Any, tolerance: float = 1e-4, **options: Any
) -> Any:
    """Compare a function's results and gradients, compiled and not; return the compiled one."""
    run = compiled(function, **options)
    given = [[x.detach().clone() for x in inputs] for _ in range(2)]
    for each in given:
        for x in each:
            x.requires_grad_(x.is_floating_point())
    found = [f(*each) for f, each in zip((run, function), given, strict=True)]
    for ours, torchs in zip(*map(_several, found), strict=True):
        torch.testing.assert_close(ours, torchs, rtol=tolerance, atol=tolerance)
        assert ours.stride() == torchs.stride()
    for result in found:
        sum(r.float().square().sum() for r in _several(result) if r.requires_grad).backward()
    for ours, torchs in zip(*given, strict=True):
        torch.testing.assert_close(ours.grad, torchs.grad, rtol=tolerance, atol=tolerance)
    return run


def _several(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, tuple | list) else (result,)
