"""Models that torchao quantised, as weft's layers: `weft.quant.from_torchao`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.quant import checkpoint
from weft.quant.batches import check_model, linear_layers
from weft.quant.conversion import replaced
from weft.quant.layouts.flattened import entry_of, packed
from weft.quant.layouts.torchao import KINDS, Packed, imported
from weft.quoting import quoted

PARTS = (
    "qdata", "scale", "zero_point", "act_pre_scale", "act_quant_scale", "scale_and_zero",
)  # fmt: skip
FACTS = ("block_size", "target_dtype", "shape", "act_quant_kwargs")
ROOT = "torchao"
State = Mapping[str, Packed | torch.Tensor]
"""Parameters by name."""


def from_torchao(
    model: torch.nn.Module, weights: Mapping[str, Any] | str | Path | None = None
) -> torch.nn.Module:
    """Turn linear layers that torchao quantised into weft's, in place; return the model.

    model     a module of PyTorch
    weights   None: the layers of the model itself have weights of torchao. Else the weights for a
              model that is not quantised: a `state_dict` with tensors of torchao, or the path of a
              safetensors file or folder as torchao flattens them, which needs no torchao

    The dequantised weights are equal. Layers whose inputs torchao quantises by rows compute in 8
    bits, too; with other treatments inputs keep their dtype. Layers without weights of torchao stay
    as they are. An error changes no layer.

    >>> model = torch.nn.Sequential(torch.nn.Linear(32, 8))
    >>> try:
    ...     weft.quant.from_torchao(model)
    ... except weft.ArgumentError as error:
    ...     print(error.what)
    the model has no linear layer that torchao quantised
    """
    layers = linear_layers(check_model(model))
    if weights is None:
        state: State = {
            _key(name): _unwrapped(layer.weight, _key(name))
            for name, layer in layers.items()
            if _is_torchao(layer.weight)
        }
    else:
        state = _given(weights)
        _check_rest(model, state)
    found = {key: p for key, p in state.items() if isinstance(p, Packed)}
    if not found:
        raise ArgumentError(
            "the model has no linear layer that torchao quantised",
            got=f"{len(layers)} linear layers" if weights is None else f"{len(state)} tensors",
            allowed=", ".join(KINDS),
            next="quantise it with torchao.quantization.quantize_, or with weft.quant.convert",
        )
    by_key = {_key(name): layer for name, layer in layers.items()}
    made = {id(by_key[key]): _layer(by_key, key, p) for key, p in found.items() if key in by_key}
    if others := sorted(found.keys() - by_key.keys()):
        raise ArgumentError(
            "torchao quantised something else than a linear layer of the model",
            where=others[0], got=found[others[0]].kind, allowed="the weights of linear layers",
            next="save the model with this weight as it is",
        )  # fmt: skip
    rest = {key: x for key, x in state.items() if isinstance(x, torch.Tensor)}
    if rest:
        model.load_state_dict(rest, strict=False)
    return replaced(model, made)


def _key(name: str) -> str:
    return f"{name}.weight" if name else "weight"


def _layer(layers: Mapping[str, torch.nn.Module], key: str, p: Packed) -> torch.nn.Module:
    layer = layers[key]
    made = imported(p)
    if made.weight.shape != tuple(layer.weight.shape):
        raise ArgumentError(
            "a weight of torchao has another shape than the layer",
            where=key, got=str(list(made.weight.shape)), allowed=str(list(layer.weight.shape)),
        )  # fmt: skip
    device = layer.weight.device
    at = made if device.type == "meta" else made.to(device, p.dtype)
    return at.layer(layer.bias).train(layer.training)


# ---- tensors of torchao ------------------------------------------------------------------------
def _is_torchao(x: object) -> bool:
    return type(x).__module__.partition(".")[0] == ROOT


def _unwrapped(x: Any, name: str) -> Packed:
    """Take the parts of a tensor of torchao, whose package is not imported."""
    parts = {part: getattr(x, part, None) for part in PARTS}
    return Packed(
        kind=type(x).__name__,
        tensors={part: value for part, value in parts.items() if value is not None},
        facts={fact: getattr(x, fact, None) for fact in FACTS},
        dtype=x.dtype,
        where=name,
    )


def _given(weights: object) -> State:
    """The parameters of a state or a path."""
    if isinstance(weights, str | Path):
        return _stored(Path(weights))
    if not isinstance(weights, Mapping):
        raise ArgumentError(
            "weights is neither a state_dict nor a path",
            got=quoted(weights), allowed="a mapping, the path of safetensors, None",
        )  # fmt: skip
    return {key: _unwrapped(x, key) if _is_torchao(x) else x for key, x in weights.items()}


def _stored(path: Path) -> State:
    """The parameters of safetensors files."""
    stored = checkpoint.read(path)
    used: set[str] = set()
    state: dict[str, Packed | torch.Tensor] = {}
    for name in stored.metadata:
        entry = entry_of(stored.metadata, name) if name.rpartition(".")[0] else None
        if entry is not None:
            state[name] = packed(name, entry, stored.tensors, used)
    for key, value in stored.tensors.items():
        if key not in used:
            state[key] = value.read(tuple(checkpoint.KNOWN))
    return state


def _check_rest(model: torch.nn.Module, state: State) -> None:
    """Raise for missing, extra and wrong plain tensors before one is copied."""
    own = model.state_dict()
    if extra := sorted(key for key in state if key not in own):
        raise ArgumentError(
            "the weights have a tensor that the model lacks",
            where=extra[0], got=f"{len(extra)} such tensors",
        )  # fmt: skip
    there = {_place(own[key]) for key in state}  # tied weights are stored once
    missing = sorted(k for k in own if k not in state and _place(own[k]) not in there)
    if missing:
        raise ArgumentError(
            "the weights lack a tensor of the model",
            where=missing[0], got=f"{len(missing)} such tensors",
        )  # fmt: skip
    for key, x in state.items():
        if isinstance(x, torch.Tensor) and x.shape != own[key].shape:
            raise ArgumentError(
                "a tensor of the weights has another shape than the model's",
                where=key, got=str(list(x.shape)), allowed=str(list(own[key].shape)),
            )  # fmt: skip


def _place(x: torch.Tensor) -> tuple[int, int]:
    """A name of the memory of a tensor."""
    return (id(x), 0) if x.device.type == "meta" else (x.data_ptr(), x.numel())
