"""The layers of `weft.nn`: one row per layer of `torch.nn`, with the op that computes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

FLOATS = (torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class LayerRow:
    """One layer.

    name    of the class in torch.nn and in weft.nn
    op      of weft.ops that computes it
    call    (op, layer, *inputs) -> the result
    lacks   (layer) -> the options that weft has no kernel for, as text; "" if it has them all
    refuses (*inputs) -> the inputs that weft has no kernel for, as text; "" if it has them all
    """

    name: str
    op: str
    call: Callable[..., Any]
    lacks: Callable[[Any], str] = lambda layer: ""
    refuses: Callable[..., str] = lambda *inputs: ""


# ---- options that are left to PyTorch ----------------------------------------------------------
def _in_place(layer: Any) -> str:
    return "inplace=True" if layer.inplace else ""


def _padding_mode(layer: Any) -> str:
    return "" if layer.padding_mode == "zeros" else f"padding_mode={layer.padding_mode!r}"


def _old_reduction(layer: Any) -> str:
    return "" if layer.reduction in ("none", "mean", "sum") else f"reduction={layer.reduction!r}"


def _embedding(layer: Any) -> str:
    found = [n for n in ("max_norm", "scale_grad_by_freq", "sparse") if getattr(layer, n)]
    return ", ".join(f"{n}={getattr(layer, n)}" for n in found)


# ---- layers ------------------------------------------------------------------------------------
def _convolution(name: str) -> LayerRow:
    def call(op: Any, m: Any, x: Any) -> Any:
        return op(x, m.weight, m.bias, m.stride, m.padding, m.dilation, m.groups)

    return LayerRow(name, name.lower(), call, _padding_mode)


def _batch_norm(name: str) -> LayerRow:
    def call(op: Any, m: Any, x: Any) -> Any:
        m._check_input_dim(x)
        training, momentum = m.training, 0.0 if m.momentum is None else m.momentum
        # torch looks up parameters and buffers in Python: each once.
        mean, var = m.running_mean, m.running_var
        if training and m.track_running_stats:
            count = m.num_batches_tracked
            if count is not None:
                count.add_(1)
                if m.momentum is None:  # a cumulative average
                    momentum = 1.0 / float(count)
        elif training:
            mean = var = None
        # Without running statistics, those of the batch are used in evaluation as well.
        of_batch = training or (mean is None and var is None)
        return op(x, mean, var, m.weight, m.bias, of_batch, momentum, m.eps)

    return LayerRow(name, "batch_norm", call)


def _instance_norm(name: str) -> LayerRow:
    def call(op: Any, m: Any, x: Any) -> Any:
        m._check_input_dim(x)
        single = x.dim() == m._get_no_batch_dim()
        batch = x.unsqueeze(0) if single else x
        # Without weights, torch takes inputs of other channels than the layer has.
        kept = m.track_running_stats
        made = op(
            batch, m.running_mean if kept else None, m.running_var if kept else None, m.weight,
            m.bias, m.training or not kept, m.momentum or 0.0, m.eps,
        )  # fmt: skip
        return made.squeeze(0) if single else made

    return LayerRow(name, "instance_norm", call)


def _max_pool(name: str) -> LayerRow:
    def call(op: Any, m: Any, x: Any) -> Any:
        return op(x, m.kernel_size, m.stride, m.padding, m.dilation, m.ceil_mode, m.return_indices)

    return LayerRow(name, {"MaxPool1d": "max_pool1d", "MaxPool2d": "max_pool2d"}[name], call)


def _activation(name: str, op: str, *options: str, changes: bool = True) -> LayerRow:
    """An activation whose op takes attributes of the layer."""
    return LayerRow(
        name,
        op,
        lambda op, m, x: op(x, *(getattr(m, o) for o in options)),
        _in_place if changes else lambda m: "",
    )


def _along(name: str, op: str) -> LayerRow:
    return LayerRow(
        name, op, lambda op, m, x: op(x, m.dim), lambda m: "dim=None" if m.dim is None else ""
    )


def _loss(name: str, op: str, *options: str) -> LayerRow:
    def loss(op: Any, m: Any, x: Any, target: Any) -> Any:
        return op(x, target, **{o: getattr(m, o) for o in (*options, "reduction")})

    return LayerRow(name, op, loss, _old_reduction)


def _linear_loss(op: Any, m: Any, x: Any, target: Any) -> Any:
    ignored = -100 if m.ignore_index is None else m.ignore_index
    given = x, m.linear.weight, target, m.linear.bias, ignored, m.reduction, m.label_smoothing
    return op(*given).to(x.dtype)  # the op's loss is in float32


def _linear_loss_options(layer: Any) -> str:
    found = [
        n for n in ("out_features", "weight", "options") if getattr(layer, n) not in (None, ())
    ]
    return ", ".join(found) or _old_reduction(layer)


def _probabilities(x: Any, target: Any) -> str:
    return "probabilities as target" if target.is_floating_point() else ""


OF_NEW_VERSIONS = tuple(
    row for row in (
        LayerRow("LinearCrossEntropyLoss", "linear_cross_entropy", _linear_loss,
            _linear_loss_options, _probabilities),
    ) if hasattr(torch.nn, row.name)
)  # fmt: skip
"""Layers that old versions of PyTorch do not have."""


ROWS = (
    _convolution("Conv1d"), _convolution("Conv2d"),
    LayerRow("Linear", "linear", lambda op, m, x: op(x, m.weight, m.bias)),
    _batch_norm("BatchNorm1d"), _batch_norm("BatchNorm2d"), _batch_norm("BatchNorm3d"),
    LayerRow("LayerNorm", "layer_norm",
        lambda op, m, x: op(x, m.normalized_shape, m.weight, m.bias, m.eps)),
    LayerRow("RMSNorm", "rms_norm", lambda op, m, x: op(x, m.normalized_shape, m.weight, m.eps)),
    LayerRow("GroupNorm", "group_norm",
        lambda op, m, x: op(x, m.num_groups, m.weight, m.bias, m.eps)),
    _instance_norm("InstanceNorm1d"), _instance_norm("InstanceNorm2d"),
    _instance_norm("InstanceNorm3d"),
    LayerRow("LocalResponseNorm", "local_response_norm",
        lambda op, m, x: op(x, m.size, m.alpha, m.beta, m.k)),
    _max_pool("MaxPool1d"), _max_pool("MaxPool2d"),
    LayerRow("AvgPool1d", "avg_pool1d", lambda op, m, x: op(
        x, m.kernel_size, m.stride, m.padding, m.ceil_mode, m.count_include_pad)),
    LayerRow("AvgPool2d", "avg_pool2d", lambda op, m, x: op(
        x, m.kernel_size, m.stride, m.padding, m.ceil_mode, m.count_include_pad,
        m.divisor_override)),
    LayerRow("AdaptiveAvgPool1d", "adaptive_avg_pool1d", lambda op, m, x: op(x, m.output_size)),
    LayerRow("AdaptiveAvgPool2d", "adaptive_avg_pool2d", lambda op, m, x: op(x, m.output_size)),
    LayerRow("Dropout", "dropout", lambda op, m, x: op(x, m.p, m.training), _in_place),
    LayerRow("Embedding", "embedding", lambda op, m, x: op(x, m.weight, m.padding_idx), _embedding),
    _activation("ReLU", "relu"), _activation("ReLU6", "relu6"), _activation("SELU", "selu"),
    _activation("SiLU", "silu"), _activation("Mish", "mish"), _activation("Hardswish", "hardswish"),
    _activation("Hardsigmoid", "hardsigmoid"), _activation("ELU", "elu", "alpha"),
    _activation("LeakyReLU", "leaky_relu", "negative_slope"),
    _activation("GELU", "gelu", "approximate", changes=False),
    _activation("Softplus", "softplus", "beta", "threshold", changes=False),
    _activation("Sigmoid", "sigmoid", changes=False), _activation("Tanh", "tanh", changes=False),
    _along("Softmax", "softmax"), _along("LogSoftmax", "log_softmax"),
    _loss("CrossEntropyLoss", "cross_entropy", "weight", "ignore_index", "label_smoothing"),
    _loss("NLLLoss", "nll_loss", "weight", "ignore_index"),
    _loss("MSELoss", "mse_loss"), _loss("L1Loss", "l1_loss"),
    _loss("SmoothL1Loss", "smooth_l1_loss", "beta"),
    _loss("BCELoss", "binary_cross_entropy", "weight"),
    _loss("BCEWithLogitsLoss", "binary_cross_entropy_with_logits", "weight", "pos_weight"),
    _loss("KLDivLoss", "kl_div", "log_target"),
    *OF_NEW_VERSIONS,
)  # fmt: skip
"""Every layer of `weft.nn`."""
