"""The least cost of an operation of PyTorch: floating-point operations, bytes, seconds on a GPU.

The least time is the larger of two: the bytes at the rate of DRAM, and the floating-point
operations at the peak rate of their type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree
from torch.utils.flop_counter import flop_registry

from weft.device.models import GpuModel
from weft.measure.profile import floor

_TENSOR_CORES = {torch.float16: "f16", torch.bfloat16: "bf16"}
_NO_KERNEL = ("empty", "new_empty", "empty_like", "empty_strided",
              "new_empty_strided",
              "lift_fresh", "resize_", "set_")  # fmt: skip
"""Operations that launch nothing on a GPU."""

DRAM = "DRAM"
_ONLY_WRITE = ("fill_", "zero_", "normal_", "uniform_", "bernoulli_", "random_")

Values = Mapping[str, Any]
"""The arguments of an operation by their names."""


class Cost(NamedTuple):
    """The least cost of one call.

    bytes      that it reads and writes at least
    allocated  bytes of its new results
    library    True for products, convolutions and attention
    limit      the rate that bounds it: DRAM, or that of a unit
    """

    flops: float
    bytes: float
    allocated: int
    seconds: float
    library: bool
    limit: str


def cost(
    gpu: GpuModel, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any
) -> Cost:
    """The cost of a call that has just returned."""
    values = named(func, args, kwargs)
    given, results, changed = tensors((args, kwargs)), tensors(out), written(func, values)
    read = [] if func._opname in _ONLY_WRITE else given
    stored = [*changed, *(t for t in results if all(t is not c for c in changed))]
    moved = sum(map(size, read)) + sum(map(size, stored))
    counted = _flops(func, args, kwargs, values, out)
    library = counted is not None
    flops = counted if counted is not None else float(sum(t.numel() for t in stored))
    before = {t.untyped_storage().data_ptr() for t in given}
    new = sum(size(t) for t in results if t.untyped_storage().data_ptr() not in before)
    unit = _unit(func, values, read, library)
    moving, computing = moved / (gpu.memory_gb_per_s * 1e9), flops / floor.ceilings(gpu)[unit]
    limit = DRAM if moving >= computing else unit
    return Cost(flops, moved, new, max(moving, computing), library, limit)


def arithmetic(
    func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any
) -> tuple[float, str]:
    """The FLOPs of a product, a convolution or attention, and their unit; 0 for others."""
    values = named(func, args, kwargs)
    counted = _flops(func, args, kwargs, values, out)
    return counted or 0.0, _unit(func, values, tensors((args, kwargs)), counted is not None)


def named(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by their names."""
    return {**dict(zip((a.name for a in func._schema.arguments), args, strict=False)), **kwargs}


def launches(func: Any, out: Any) -> bool:
    """True if an operation launches kernels; False for views and for the tensors of a trace."""
    marks = func.namespace == "profiler"
    return not (marks or is_view(func) or func._opname in _NO_KERNEL) and _is_real(out)


def name(func: Any) -> str:
    """`aten::mm`, `weft::conv2d`; the CPU's attention by the name of the GPU's."""
    return f"{func.namespace}::{func._opname.replace('_for_cpu', '')}"


def tensors(values: Any) -> list[torch.Tensor]:
    """All tensors in nested values."""
    return list(_plain(_pytree.tree_leaves(values)))


def size(tensor: torch.Tensor) -> int:
    """Bytes of the elements; an expanded dimension has one."""
    elements = 1
    for extent, stride in zip(tensor.shape, tensor.stride(), strict=True):
        elements *= extent if stride or not extent else 1
    return elements * int(tensor.element_size())


# ---- floating-point operations -------------------------------------------------------------------
def _flops(
    func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], values: Values, out: Any
) -> float | None:
    """The FLOPs of products, convolutions and attention; None for other operations."""
    own = _WEFT.get(func._opname) if func.namespace == "weft" else None
    if own is not None:
        return own(values, out)
    if func._opname.startswith("_scaled_dot_product_"):
        return _attention(values, backward=func._opname.endswith("_backward"))
    count = flop_registry.get(func._overloadpacket)
    return None if count is None else float(count(*args, **kwargs, out_val=out))


def _attention(values: Values, *, backward: bool) -> float:
    """Two products of the scores forward, five backward; a causal mask skips what it hides."""
    query, key, value = (values[name].shape for name in ("query", "key", "value"))
    rows, columns = query[-2], key[-2]
    scores = float(rows * columns)
    if values.get("is_causal"):
        below = min(rows, columns)
        scores = below * (below + 1) / 2 + max(rows - columns, 0) * columns
    by_query, by_value = (3, 2) if backward else (1, 1)
    depth = by_query * query[-1] + by_value * value[-1]
    return 2.0 * float(math.prod(query[:-2])) * scores * float(depth)


def _per_result(weight: str, first: int) -> Callable[[Values, Any], float]:
    """Each element of the result is a sum over the dimensions of `weight` from `first` on."""
    return lambda values, out: 2.0 * out.numel() * math.prod(values[weight].shape[first:])


_WEFT: dict[str, Callable[[Values, Any], float]] = {
    "matmul": _per_result("a", -1),
    "linear": _per_result("weight", -1),
    "conv1d": _per_result("weight", 1),
    "conv2d": _per_result("weight", 1),
    "conv_backward_input": lambda values, _: (
        2.0 * values["dy"].numel() * math.prod(values["weight"].shape[1:])
    ),
    **dict.fromkeys(
        ("conv_backward_weight", "conv_backward_weight_wide"),
        lambda values, out: 2.0 * values["dy"].numel() * math.prod(out.shape[1:]),
    ),
    "attention": lambda values, _: _attention(values, backward=False),
    "attention_lse": lambda values, _: _attention(values, backward=False),
    "attention_dropout": lambda values, _: _attention(values, backward=False),
    **dict.fromkeys(
        ("attention_backward", "attention_backward_joined"),
        lambda values, _: _attention(values, backward=True),
    ),
    **dict.fromkeys(
        ("matmul_row_sums", "matmul_wide"),
        lambda values, out: _per_result("a", -1)(values, out[0]),
    ),
}
"""weft's own operations, which torch does not count."""


def _unit(func: Any, values: Values, read: Sequence[torch.Tensor], library: bool) -> str:
    """The unit that computes; products of 16 bits use tensor cores."""
    dtype = next((t.dtype for t in read if t.is_floating_point()), torch.float32)
    if library and dtype in _TENSOR_CORES:
        return f"tensor.{_TENSOR_CORES[dtype]}"
    if library and dtype is torch.float32 and _is_tf32(func, values):
        return "tensor.tf32"
    return "fp64" if dtype is torch.float64 else "fp32"


def _is_tf32(func: Any, values: Values) -> bool:
    """True if a product of float32 may use TF32: by default convolutions of cuDNN do."""
    if "precision" in values or func.namespace == "weft":
        return "tf32" in str(values.get("precision", ""))
    backends = torch.backends
    convolution = "conv" in func._opname
    settings: Any = getattr(backends.cudnn, "conv", None) if convolution else backends.cuda.matmul
    if hasattr(settings, "fp32_precision"):  # torch 2.9; `allow_tf32` may not be read beside it
        return bool(settings.fp32_precision == "tf32")
    return bool((backends.cudnn if convolution else backends.cuda.matmul).allow_tf32)


# ---- arguments and results -----------------------------------------------------------------------
def written(func: Any, values: Values) -> list[torch.Tensor]:
    """The arguments that an operation writes."""
    arguments = (
        values.get(a.name)
        for a in func._schema.arguments
        if a.alias_info is not None and a.alias_info.is_write
    )
    return tensors(list(arguments))


def _plain(values: Sequence[Any]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor) and value.layout is torch.strided:
            yield value


def _is_real(out: Any) -> bool:
    """False for the tensors of a trace."""
    return all(type(t) in (torch.Tensor, torch.nn.Parameter) for t in _pytree.tree_leaves(out)
               if isinstance(t, torch.Tensor))  # fmt: skip


def is_view(func: Any) -> bool:
    """True if all results are views of arguments that stay unchanged."""
    returns = func._schema.returns
    return bool(returns) and all(
        r.alias_info is not None and not r.alias_info.is_write for r in returns
    )
