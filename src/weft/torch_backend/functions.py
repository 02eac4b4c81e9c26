"""The torch functions that become ops of weft: one row each.

A row's function has the parameters of torch's function and is called while AOTAutograd traces the
graph, so that the gradient is the one which weft's op registers.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F

from weft.ops.core import library
from weft.ops.families.random.start import start
from weft.torch_backend import upsampling

FLOATS = (torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class FunctionRow:
    """One function.

    name      as a report writes it
    targets   torch's functions, and names of methods of tensors
    function  computes it with weft's ops
    lacks     (**arguments) -> the reason to leave a call to PyTorch; "" if there is none
    """

    name: str
    targets: tuple[Any, ...]
    function: Callable[..., Any]
    lacks: Callable[..., str] = lambda **arguments: ""


def precision(x: Any) -> str:
    """The precision of products of a tensor, as torch is set."""
    fast = x.dtype is torch.float32 and torch.backends.cuda.matmul.allow_tf32
    return "tf32" if fast and x.device.type == "cuda" else "fp32"


# ---- products ----------------------------------------------------------------------------------
def linear(input: Any, weight: Any, bias: Any = None, activation: str = "") -> Any:
    return library.call("linear")(input, weight, bias, activation, precision(input))


def matmul(input: Any, other: Any) -> Any:
    return library.call("matmul")(input, other, precision(input))


def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return library.call("addmm")(input, mat1, mat2, "", precision(mat1))


def _scaled(beta: Any = 1, alpha: Any = 1, **_: Any) -> str:
    return "" if beta == 1 and alpha == 1 else "beta or alpha other than 1"


# ---- convolution -------------------------------------------------------------------------------
def _convolution(dims: int) -> Callable[..., Any]:
    def convolution(
        input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1,
    ) -> Any:  # fmt: skip
        tf32 = torch.backends.cudnn.allow_tf32 and input.dtype is torch.float32
        rate = "tf32" if tf32 and input.device.type == "cuda" else "fp32"
        call = library.call(f"conv{dims}d")
        return call(input, weight, bias, stride, padding, dilation, groups, rate)

    convolution.__name__ = convolution.__qualname__ = f"conv{dims}d"
    return convolution


conv1d, conv2d = _convolution(1), _convolution(2)


# ---- attention ---------------------------------------------------------------------------------
def attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: Any = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    call = library.call("attention")
    return call(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)


# ---- norms -------------------------------------------------------------------------------------
def layer_norm(
    input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    return library.call("layer_norm")(input, list(normalized_shape), weight, bias, eps)


def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: Any = None) -> Any:
    return library.call("rms_norm")(input, list(normalized_shape), weight, eps)


def group_norm(
    input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    return library.call("group_norm")(input, num_groups, weight, bias, eps)


def batch_norm(
    input: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None,
    training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    if not training:
        call = library.call("batch_norm")
        return call(input, running_mean, running_var, weight, bias, False, momentum, eps)
    result, mean, var = library.call("batch_norm_training")(input, weight, bias, eps)
    update_statistics(input, running_mean, running_var, mean, var, momentum)
    return result


def update_statistics(
    x: Any, running_mean: Any, running_var: Any, mean: Any, var: Any, momentum: float
) -> None:
    """Update running statistics in place, with operations that become part of a fused kernel."""
    count = x.numel() // x.shape[1]
    with torch.no_grad():
        if running_mean is not None:
            running_mean.copy_(running_mean * (1 - momentum) + mean * momentum)
        if running_var is not None:
            unbiased = momentum * count / max(count - 1, 1)
            running_var.copy_(running_var * (1 - momentum) + var * unbiased)


# ---- others ------------------------------------------------------------------------------------
def embedding(
    input: Any, weight: Any, padding_idx: Any = None, max_norm: Any = None, norm_type: float = 2.0,
    scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Any:  # fmt: skip
    return library.call("embedding")(input, weight, padding_idx)


def _embedding(
    max_norm: Any = None, scale_grad_by_freq: bool = False, sparse: bool = False, **_: Any
) -> str:
    given = {"max_norm": max_norm, "scale_grad_by_freq": scale_grad_by_freq, "sparse": sparse}
    return ", ".join(f"{name}={value}" for name, value in given.items() if value)


def cross_entropy(
    input: Any, target: Any, weight: Any = None, size_average: Any = None,
    ignore_index: int = -100, reduce: Any = None, reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:  # fmt: skip
    call = library.call("cross_entropy")
    return call(input, target, weight, ignore_index, reduction, label_smoothing)


def _old_reduction(
    size_average: Any = None, reduce: Any = None, reduction: str = "mean", **_: Any
) -> str:
    if size_average is not None or reduce is not None:
        return "size_average or reduce"
    return "" if reduction in ("none", "mean", "sum") else f"reduction={reduction!r}"


def _loss(target: Any, weight: Any = None, **rest: Any) -> str:
    """The loss has a gradient of its input alone."""
    needed = any(t is not None and t.requires_grad for t in (target, weight))
    return "a target or weight with a gradient" if needed else _old_reduction(**rest)


def max_pool2d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    return library.call("max_pool2d")(input, kernel_size, stride, padding, dilation, ceil_mode)


def avg_pool2d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: Any = None,
) -> Any:  # fmt: skip
    call = library.call("avg_pool2d")
    return call(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def adaptive_avg_pool2d(input: Any, output_size: Any) -> Any:
    return library.call("adaptive_avg_pool2d")(input, output_size)


def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    if not training or p == 0:
        return input
    seed, offset, state = start("dropout", input.numel(), input.device)
    made = library.call("seeded_dropout")(input, p, seed, offset, state)
    return input.copy_(made) if inplace else made


ROWS = (
    FunctionRow("linear", (F.linear, torch._C._nn.linear), linear),
    FunctionRow("matmul", (
        torch.matmul, torch.mm, torch.bmm, operator.matmul, "matmul", "mm", "bmm", "__matmul__",
    ), matmul),
    FunctionRow("addmm", (torch.addmm, "addmm"), addmm, _scaled),
    FunctionRow("conv1d", (F.conv1d, torch.conv1d), conv1d),
    FunctionRow("conv2d", (F.conv2d, torch.conv2d), conv2d),
    FunctionRow("scaled_dot_product_attention", (
        F.scaled_dot_product_attention, torch._C._nn.scaled_dot_product_attention,
    ), attention),
    FunctionRow("layer_norm", (F.layer_norm, torch.layer_norm), layer_norm),
    FunctionRow("rms_norm", (F.rms_norm, torch.rms_norm), rms_norm),
    FunctionRow("group_norm", (F.group_norm,), group_norm),
    FunctionRow("batch_norm", (F.batch_norm,), batch_norm),
    FunctionRow("embedding", (F.embedding,), embedding, _embedding),
    FunctionRow("cross_entropy", (F.cross_entropy,), cross_entropy, _loss),
    FunctionRow("max_pool2d", (F.max_pool2d,), max_pool2d,
        lambda return_indices=False, **_: "return_indices=True" if return_indices else ""),
    FunctionRow("avg_pool2d", (F.avg_pool2d, torch._C._nn.avg_pool2d), avg_pool2d),
    FunctionRow("adaptive_avg_pool2d", (F.adaptive_avg_pool2d,), adaptive_avg_pool2d),
    FunctionRow("interpolate", (F.interpolate,), upsampling.interpolate, upsampling.lacks),
    FunctionRow("dropout", (F.dropout,), dropout),
)  # fmt: skip
"""Every function that is replaced."""


@functools.cache
def by_target() -> dict[Any, FunctionRow]:
    """The rows by torch's functions and names of methods."""
    return {target: row for row in ROWS for target in row.targets}
