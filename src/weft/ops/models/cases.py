"""The judges and peers of layer calls: those of the sweep, and some that it does not have."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F

from weft.ops import fuse
from weft.ops.sweep.case import Case, Compute, find
from weft.ops.sweep.cases import CASES

ACTS: dict[str, Compute] = {
    "gelu": F.gelu,
    "gelu_tanh": functools.partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
    "relu": F.relu,
}
"""Activations of feed-forward networks by their names in models.toml."""
BACKWARD = " backward"


@functools.cache
def case(name: str) -> Case:
    """The case of a name, as `calls.Work` has it, with " backward" or without."""
    known = {**{c.name: c for c in CASES}, **{c.name: c for c in _own()}}
    if name in known:
        found = known[name]
    else:  # forward and backward of a case that the sweep draws forward alone
        forward = find(name.removesuffix(BACKWARD), tuple(known.values()))
        found = forward.with_backward(exact=False, roundings=2 * forward.roundings)
    if found.op != "attention":
        return found
    biased = found.name.startswith("attention bias")
    return replace(found, peers={n: f for n, f in PEERS.items() if n in MASKED or not biased})


def _own() -> list[Case]:
    """Cases of fused layers: an activation after a product, a gate, a bias of scores."""
    linear, attention = (find(name, CASES) for name in ("linear", "attention"))
    # PyTorch rounds the product before the activation, weft after it.
    act = replace(linear, name="linear act", torch=_linear, roundings=8)
    gradients = replace(
        find("linear backward", CASES), name="linear act backward", torch=_linear, roundings=16
    )
    bias = replace(attention, name="attention bias", torch=_biased)
    return [act, gradients, bias, *map(_gate, ACTS)]


# ---- products with an activation, gates --------------------------------------------------------
def _linear(x: Any, weight: Any, bias: Any, activation: str) -> Any:
    """A linear layer with an activation, for which the library has one call."""
    return ACTS[activation](F.linear(x, weight, bias))


def _gate(act: str) -> Case:
    """The activation of a tensor times another tensor."""
    function = ACTS[act]

    def by_torch(gate: Any, up: Any) -> Any:
        return function(gate) * up

    return Case(f"gate {act}", _not_drawn, by_torch, weft=fuse.fuse(by_torch), roundings=8)


def _not_drawn(*_: Any) -> Any:
    raise AssertionError("calls of models are not drawn by their cases")


# ---- attention ---------------------------------------------------------------------------------
def _biased(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def _cudnn(q: Any, k: Any, v: Any, mask: Any = None, is_causal: bool = False, **_: Any) -> Any:
    attend = torch.ops.aten._scaled_dot_product_cudnn_attention
    if q.dtype is torch.float32:  # it would compute in a lower precision
        return F.scaled_dot_product_attention(q, k, v, mask, 0.0, is_causal, enable_gqa=True)
    return attend(q, k, v, mask, q.requires_grad, 0.0, is_causal, False)[0]


def _flash(q: Any, k: Any, v: Any, is_causal: bool = False, **_: Any) -> Any:
    return torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, is_causal, False)[0]


PEERS: dict[str, Compute] = {"cudnn": _cudnn, "flash": _flash}
"""Backends that PyTorch may choose from; it does not always choose the fastest."""
MASKED = ("cudnn",)
"""Those that take a bias of the scores."""
