"""Gradients by torch's own formulas, for the derivatives that no kernel computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch


def derive(
    function: Callable[..., Any], tensors: Sequence[Any], gradients: Sequence[Any]
) -> tuple[Any, ...]:
    """The gradients of `tensors`, None where nothing depends on one.

    function   tensors -> a result, or several
    gradients  of the results; None where one is not used

    It is called by the backward function of an op. Where autograd differentiates that again
    (`create_graph`), the result depends on the tensors and on the gradients.
    """
    further = torch.is_grad_enabled()
    with torch.enable_grad():
        points = [
            # A view of its own: hooks of the tensor are not for these gradients.
            t.view_as(t) if further and t.requires_grad else t.detach().requires_grad_()
            for t in tensors
        ]
        made = function(*points)
        results = [made] if isinstance(made, torch.Tensor) else made
        # Results that were not wanted are empty tensors of another shape. Any other gradient of
        # another shape is an error, which torch raises.
        used = [
            (y, g)
            for y, g in zip(results, gradients, strict=False)
            if g is not None and (g.numel() or g.shape == y.shape)
        ]
        found = torch.autograd.grad(
            [y for y, _ in used],
            points,
            [g for _, g in used],
            create_graph=further,
            allow_unused=True,
        )
    return tuple(found)
