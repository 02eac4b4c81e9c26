"""Makes the classes of `weft.nn` from their rows.

A class is a subclass of PyTorch's layer of the same name, so arguments, initialisation,
`state_dict` and `repr` are PyTorch's. Only `forward` differs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from weft.nn.rows import FLOATS, ROWS, LayerRow
from weft.ops.core import library

_WARNED: set[tuple[str, str]] = set()
"""The warnings that were given, by layer and reason."""


_OPS: dict[str, Callable[..., Any]] = {}
"""The ops that layers have used, by name."""


def _op(name: str) -> Callable[..., Any]:
    """An op of the library. torch.compile traces what `_OPS` has, but not how an op is made."""
    op = _OPS.get(name)
    if op is None:
        op = _OPS[name] = library.call(name)
    return op


def _class(row: LayerRow) -> type:
    base: type = getattr(torch.nn, row.name)

    def forward(self: Any, *inputs: Any) -> Any:
        reason = row.lacks(self) or _dtype(inputs[0]) or row.refuses(*inputs)
        if not reason:
            return row.call(_op(row.op), self, *inputs)
        _warn(row.name, f"this layer; weft has no kernel for {reason}")
        return base.forward(self, *inputs)  # type: ignore[attr-defined]

    def make(cls: type, *args: Any, **options: Any) -> Any:
        _op(row.op)  # before torch.compile traces `forward`
        return object.__new__(cls)

    doc = f"`torch.nn.{row.name}`, computed by `weft.ops`."
    members = {"forward": forward, "__new__": make, "__doc__": doc, "__module__": "weft.nn"}
    return type(row.name, (base,), members)


def _dtype(x: Any) -> str:
    """The reason to leave a tensor to PyTorch, or ""; integers are indices."""
    known = x.dtype in FLOATS or not (x.is_floating_point() or x.is_complex())
    return "" if known else f"the dtype {str(x.dtype).removeprefix('torch.')}"


def _warn(layer: str, reason: str) -> None:
    """Warn once of what PyTorch computes, where a layer or `weft.nn.convert` was called."""
    if (layer, reason) in _WARNED or torch.compiler.is_compiling():  # which cannot trace a warning
        return
    _WARNED.add((layer, reason))
    text = f"weft.nn.{layer}: PyTorch computes {reason}"
    warnings.warn(text, stacklevel=4)


CLASSES = {row.name: _class(row) for row in ROWS}
OF_TORCH = {getattr(torch.nn, row.name): row for row in ROWS}
"""PyTorch's class -> the row of weft's class."""


_NOT_COMPUTING = (
    torch.nn.Identity, torch.nn.Flatten, torch.nn.Unflatten, torch.nn.Transformer,
    torch.nn.TransformerEncoder, torch.nn.TransformerEncoderLayer, torch.nn.TransformerDecoder,
    torch.nn.TransformerDecoderLayer,
)  # fmt: skip
"""Modules of torch.nn that compute nothing but what the layers inside of them compute."""


def convert(model: torch.nn.Module) -> torch.nn.Module:
    """Make the layers of a model compute with weft's kernels; return the model itself.

    Parameters, buffers and hooks stay the same objects, so optimisers and checkpoints keep
    working. Layers that weft does not have stay as they are, with one warning that names them.
    """
    for layer in model.modules():
        row = OF_TORCH.get(type(layer))
        if row is not None:
            # The class alone changes, because it holds nothing but the code of `forward`.
            layer.__class__ = CLASSES[row.name]
            _op(row.op)
            if reason := row.lacks(layer):
                _warn(row.name, f"this layer; weft has no kernel for {reason}")
    if left := sorted(set(_left(model))):
        _warn("convert", f"{', '.join(left)}; weft has no such layers")
    return model


def _left(module: torch.nn.Module) -> Iterator[str]:
    """The layers of torch.nn in a model that compute and that weft does not have."""
    kind = type(module)
    home = kind.__module__
    computes = home.startswith("torch.nn.modules.") and not home.endswith(".container")
    if computes and kind not in _NOT_COMPUTING:
        yield kind.__name__  # modules inside, such as those of MultiheadAttention, are its own
        return
    for inner in module.children():
        yield from _left(inner)


def revert(model: torch.nn.Module) -> torch.nn.Module:
    """Undo `convert`: the layers are PyTorch's again."""
    back = {CLASSES[row.name]: base for base, row in OF_TORCH.items()}
    for layer in model.modules():
        layer.__class__ = back.get(type(layer), type(layer))
    return model
