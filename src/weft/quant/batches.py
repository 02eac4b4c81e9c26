"""Runs of a model on batches, with hooks on its linear layers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch

from weft import nn
from weft.errors import ArgumentError
from weft.quoting import quoted

Seen = Callable[[str, torch.Tensor], None]
"""Takes the name of a layer and its input."""


def linear_layers(model: torch.nn.Module) -> dict[str, torch.nn.Module]:
    """The linear layers of a model by name; subclasses that are not weft's are left out."""
    kinds = (torch.nn.Linear, nn.Linear)
    return {name: m for name, m in model.named_modules() if type(m) in kinds}


def check_model(model: object) -> torch.nn.Module:
    """Raise unless `model` is a module of PyTorch."""
    if not isinstance(model, torch.nn.Module):
        raise ArgumentError(
            "a model is a module of PyTorch", got=quoted(model), allowed="torch.nn.Module"
        )
    return model


def run(model: torch.nn.Module, batch: Any) -> Any:
    """Call a model: a tuple is its arguments, a mapping its named ones, a tensor the first."""
    if isinstance(batch, Mapping):
        return model(**batch)
    return model(*batch) if isinstance(batch, tuple) else model(batch)


@contextlib.contextmanager
def inference(model: torch.nn.Module) -> Iterator[None]:
    """Evaluate: no gradients and no dropout; the mode of each module comes back."""
    training = [m for m in model.modules() if m.training]
    try:
        with torch.no_grad():
            model.eval()
            yield
    finally:
        for module in training:
            module.training = True


@contextlib.contextmanager
def watched(layers: Mapping[str, torch.nn.Module], seen: Seen) -> Iterator[None]:
    """Call `seen` before each call of one of the layers."""

    def hook(name: str) -> Callable[..., None]:
        return lambda _, inputs, named: seen(name, first(inputs, named).detach())

    handles = [
        m.register_forward_pre_hook(hook(name), with_kwargs=True) for name, m in layers.items()
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def first(inputs: tuple[Any, ...], named: Mapping[str, Any]) -> torch.Tensor:
    """The input of a call of a linear layer, which may be given by name."""
    found: torch.Tensor = inputs[0] if inputs else named["input"]
    return found


def check_batches(batches: object) -> Iterator[Any]:
    """Iterate over batches; raise for none, and for one batch in place of several."""
    if isinstance(batches, torch.Tensor | Mapping | str) or not isinstance(batches, Iterable):
        raise ArgumentError(
            "batches is no sequence of batches",
            got=type(batches).__name__,
            allowed="an iterable of tensors, tuples of arguments or mappings of named ones",
            next="put one batch into a list: [batch]",
        )
    left = iter(batches)
    batch = next(left, left)
    if batch is left:
        raise ArgumentError("there are no batches", got="0", allowed="at least 1")
    yield batch
    yield from left
