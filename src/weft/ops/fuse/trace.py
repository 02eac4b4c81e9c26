"""Record the operations of a function: ATen operations on fake tensors, without computing."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._decomp import get_decompositions
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from weft.errors import ArgumentError
from weft.ops.fuse.masks import Dropouts

_DECOMPOSED = (
    "_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data",
    "native_layer_norm", "native_layer_norm_backward", "_fused_rms_norm",
    "_fused_rms_norm_backward", 
    "sigmoid_backward", "tanh_backward", "threshold_backward", "leaky_relu",
    "leaky_relu_backward", "elu_backward",
    "hardswish", "hardswish_backward", "std", "var_mean", "std_mean",
    "addcmul", "addcdiv", "rsub", "lerp", "mse_loss", "mse_loss_backward", "logsumexp",
    "log_sigmoid_forward", "log_sigmoid_backward", "clamp", "hardtanh", "hardtanh_backward",
    "hardsigmoid", "hardsigmoid_backward", "huber_loss", "huber_loss_backward",
    "binary_cross_entropy_with_logits", "smooth_l1_loss", "smooth_l1_loss_backward", "norm",
    "linalg_vector_norm", "masked_fill",
    "glu", "glu_backward", "celu", "relu6", "logaddexp", "xlogy", "native_dropout_backward",
    "selu",
)  # fmt: skip
"""ATen operations that are replaced by simpler ones."""


@functools.cache
def decompositions() -> dict[Any, Any]:
    """The formulas of operations that are replaced by simpler ones."""
    packets = (getattr(torch.ops.aten, name, None) for name in _DECOMPOSED)
    return dict(get_decompositions([p for p in packets if p is not None]))


def graph_of(function: Callable[..., Any], tensors: Sequence[torch.Tensor]) -> torch.fx.Graph:
    """The operations of a function for tensors of these shapes, strides and dtypes.

    Each node has the fake result in meta["val"]. Operations that change a tensor are replaced by
    ones that return the changed tensor.
    """
    with FakeTensorMode():  # two arguments may be one tensor, and the graph must not depend on it
        fakes = [
            torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device)
            for t in tensors
        ]
    functional = torch.func.functionalize(function, remove="mutations")
    with torch.no_grad(), Dropouts():
        made = make_fx(functional, decomposition_table=decompositions(), tracing_mode="fake")(
            *fakes
        )
    graph: torch.fx.Graph = made.graph
    changed = [n for n in graph.nodes if n.target is torch.ops.aten.copy_.default]
    if changed:
        raise ArgumentError(
            "weft.fuse: the function changes one of its arguments",
            got=f"{changed[0].args[0]} is written to",
            allowed="functions that only return new tensors",
            next="return the changed tensor: x + 1 instead of x.add_(1)",
        )
    graph.eliminate_dead_code()
    return graph


def gradient_of(
    function: Callable[..., Any], count: int, wanted: Sequence[int]
) -> Callable[..., Any]:
    """The function (*arguments, *gradients of the results) -> gradients of the wanted arguments."""

    def backward(*values: torch.Tensor) -> Any:
        arguments, gradients = list(values[:count]), values[count:]

        def of_wanted(*chosen: torch.Tensor) -> Any:
            for i, value in zip(wanted, chosen, strict=True):
                arguments[i] = value
            return function(*arguments)

        results, pull = torch.func.vjp(of_wanted, *(arguments[i] for i in wanted))
        return pull(tuple(gradients) if isinstance(results, tuple) else gradients[0])

    return backward
