"""`torch.autocast("cuda")` for tensors that are on the CPU.

Autocast for the CPU does the work, with the default dtype of CUDA. It leaves some operations alone
that autocast for CUDA casts; these are registered here, by the same policies as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree

_KEY = "AutocastCPU"

FLOAT32 = """
    acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan
    pow.Tensor_Scalar pow.Tensor_Tensor pow.Scalar softplus layer_norm native_layer_norm group_norm
    cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss nll_loss_nd nll_loss2d
    hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss margin_ranking_loss
    multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss
    binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp
    prod prod.dim_int softmax.int log_softmax.int cumprod cumsum sum sum.dim_IntList
    linalg_vector_norm norm.Scalar norm.ScalarOpt_dim
"""
"""Operations that autocast for CUDA computes in float32."""

LOWER = """
    addmv addr mv prelu einsum chain_matmul linalg_multi_dot lstm_cell gru_cell rnn_tanh_cell
    rnn_relu_cell
"""
"""Operations that autocast for CUDA computes in the lower precision."""

_own: dict[str, Any] = {}
"""torch's own functions, which the replacements call."""


def replacements() -> dict[Any, dict[str, Any]]:
    """Owner -> name -> replacement; registers the policies."""
    _register()
    mode = torch.amp.autocast_mode.autocast
    names = ("is_autocast_enabled", "set_autocast_enabled", "get_autocast_dtype",
             "set_autocast_dtype")  # fmt: skip
    module = torch.amp.autocast_mode
    _own.update({n: getattr(torch, n) for n in names}, init=mode.__init__, cast=module._cast)
    return {
        mode: {"__init__": _init},
        # Of `custom_fwd(cast_inputs=)`: it leaves tensors of other devices alone.
        module: {"_cast": lambda value, kind, dtype: _own["cast"](value, _cpu(kind), dtype)},
        torch: {
            "is_autocast_enabled": lambda kind="cuda": _own["is_autocast_enabled"](_cpu(kind)),
            "set_autocast_enabled": _set_enabled,
            "get_autocast_dtype": _get_dtype,
            "set_autocast_dtype": _set_dtype,
            "get_autocast_gpu_dtype": lambda: _get_dtype("cuda"),
            "set_autocast_gpu_dtype": lambda dtype: _set_dtype("cuda", dtype),
        },
    }


def _cpu(kind: str) -> str:
    return "cpu" if kind == "cuda" else kind


_dtype = [torch.float16]
"""The dtype of `torch.autocast("cuda")` without an argument."""


def _get_dtype(kind: str) -> torch.dtype:
    if kind == "cuda" and not _own["is_autocast_enabled"]("cpu"):
        return _dtype[0]
    dtype: torch.dtype = _own["get_autocast_dtype"](_cpu(kind))
    return dtype


def _set_dtype(kind: str, dtype: torch.dtype) -> None:
    if kind == "cuda":
        _dtype[0] = dtype
    _own["set_autocast_dtype"](_cpu(kind), dtype)


def _set_enabled(*arguments: Any) -> None:
    """torch's function has both forms: (enabled) and (device_type, enabled)."""
    *kind, enabled = arguments
    _own["set_autocast_enabled"](_cpu(kind[0] if kind else "cuda"), enabled)


def _init(
    mode: Any,
    device_type: str,
    dtype: torch.dtype | None = None,
    enabled: bool = True,
    cache_enabled: bool | None = None,
) -> None:
    """torch's constructor, with the CPU instead of CUDA."""
    if device_type == "cuda":
        device_type, dtype = "cpu", dtype or _get_dtype("cuda")
        if dtype is torch.float32:
            enabled = False
    _own["init"](mode, device_type, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


def _register() -> None:
    library = torch.library.Library("aten", "IMPL")
    _own["library"] = library  # registrations end with the object
    policies = (
        (FLOAT32, lambda: torch.float32),
        (LOWER, lambda: _own["get_autocast_dtype"]("cpu")),
    )
    for names, dtype in policies:
        for name in names.split():
            if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", _KEY):
                library.impl(name, _cast(name, dtype), _KEY)


def _cast(name: str, dtype: Callable[[], torch.dtype]) -> Callable[..., Any]:
    packet, _, overload = name.partition(".")
    op = getattr(getattr(torch.ops.aten, packet), overload or "default")
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)

    def cast(*args: Any, **kwargs: Any) -> Any:
        to = dtype()

        def convert(value: Any) -> Any:
            half = isinstance(value, torch.Tensor) and value.is_floating_point()
            return value.to(to) if half and value.dtype is not torch.float64 else value

        with torch._C._ExcludeDispatchKeyGuard(keys):
            args, kwargs = _pytree.tree_map(convert, (args, kwargs))
            return op(*args, **kwargs)

    return cast
