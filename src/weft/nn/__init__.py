"""Layers of PyTorch that compute with weft's kernels: `weft.nn.Linear`, `weft.nn.Conv2d`, …

They have the arguments, the initialisation and the `state_dict` of `torch.nn`'s layers.
`convert(model)` turns the layers of an existing model into them.
"""

from __future__ import annotations

from typing import Any

from weft.ops.core import bind

__all__ = ["convert", "revert"]


def convert(model: Any) -> Any:
    """Make the layers of a model compute with weft's kernels; return the model itself.

    model  a module of PyTorch

    Parameters, buffers and hooks stay the same objects, so optimisers and checkpoints keep
    working. Subclasses of layers stay as they are. Layers and options that weft does not have are
    left to PyTorch, with one warning that names them.

    >>> model = weft.nn.convert(torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU()))
    >>> type(model[0]).__module__
    'weft.nn'
    """
    return bind.with_torch("weft.nn.layers").convert(model)


def revert(model: Any) -> Any:
    """Undo `convert`: the layers of a model are PyTorch's again.

    model  a converted module

    >>> type(weft.nn.revert(weft.nn.ReLU())).__module__
    'torch.nn.modules.activation'
    """
    return bind.with_torch("weft.nn.layers").revert(model)


def __getattr__(name: str) -> Any:
    classes = bind.with_torch("weft.nn.layers").CLASSES
    if name not in classes:
        raise AttributeError(f"weft.nn has no '{name}'; there are {', '.join(__dir__())}")
    return classes[name]


def __dir__() -> list[str]:
    return sorted({*__all__, *bind.with_torch("weft.nn.layers").CLASSES})
