"""Makes the classes of `weft.nn` from their rows.

A class is a subclass of PyTorch's layer of the same name, so arguments, initialisation,
`state_dict` and `repr` are PyTorch's. Only `forward` differs.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch

from weft.nn.rows import FLOATS, ROWS, Row

_WARNED: set[tuple[str, str]] = set()
"""What has been warned of, by layer and reason."""


def _class(row: Row) -> type:
    base: type = getattr(torch.nn, row.name)

    def forward(self: Any, *inputs: Any) -> Any:
        reason = row.lacks(self) or _dtype(inputs[0])
        if not reason:
            return row.call(self, *inputs)
        _warn(row.name, reason)
        return base.forward(self, *inputs)  # type: ignore[attr-defined]

    doc = f"`torch.nn.{row.name}`, computed by `weft.ops`."
    members = {"forward": forward, "__doc__": doc, "__module__": "weft.nn"}
    return type(row.name, (base,), members)


def _dtype(x: Any) -> str:
    """Why a tensor is left to PyTorch, or ""; integers are indices."""
    known = x.dtype in FLOATS or not (x.is_floating_point() or x.is_complex())
    return "" if known else f"the dtype {str(x.dtype).removeprefix('torch.')}"


def _warn(layer: str, reason: str) -> None:
    if (layer, reason) not in _WARNED:
        _WARNED.add((layer, reason))
        text = f"weft.nn.{layer}: PyTorch computes this layer; weft has no kernel for {reason}"
        warnings.warn(text, stacklevel=4)  # the code that called the layer


CLASSES = {row.name: _class(row) for row in ROWS}
OF_TORCH = {getattr(torch.nn, name): made for name, made in CLASSES.items()}
"""PyTorch's class -> weft's class."""


def convert(model: torch.nn.Module) -> torch.nn.Module:
    """Makes the layers of a model compute with weft's kernels; returns the model itself.

    Parameters, buffers and hooks stay the same objects, so optimisers and checkpoints keep
    working. Layers that weft does not have, and subclasses of layers, stay as they are.
    """
    for layer in model.modules():
        # The class alone changes, because it holds nothing but the code of `forward`.
        layer.__class__ = OF_TORCH.get(type(layer), type(layer))
    return model


def revert(model: torch.nn.Module) -> torch.nn.Module:
    """Undoes `convert`: the layers are PyTorch's again."""
    back = {made: base for base, made in OF_TORCH.items()}
    for layer in model.modules():
        layer.__class__ = back.get(type(layer), type(layer))
    return model
