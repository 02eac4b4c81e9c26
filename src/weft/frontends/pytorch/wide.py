"""Computes operations of half precision in float32 and rounds their results, as a GPU does.

On many CPUs, products of 16-bit floats are slow, and gradients of normalisation are summed in
16 bits. Kernels of a GPU sum both in float32.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

_aten = torch.ops.aten
_HALF = (torch.float16, torch.bfloat16)

_FUNCTIONAL = (
    _aten.mm.default,
    _aten.bmm.default,
    _aten.addmm.default,
    _aten.baddbmm.default,
    _aten.addmv.default,
    _aten.mv.default,
    _aten.dot.default,
    _aten.convolution.default,
    _aten.convolution_backward.default,
    _aten.native_layer_norm.default,
    _aten.native_layer_norm_backward.default,
    _aten.native_group_norm.default,
    _aten.native_group_norm_backward.default,
)
_INTO = {
    _aten.mm.out: _aten.mm.default,
    _aten.bmm.out: _aten.bmm.default,
    _aten.addmm.out: _aten.addmm.default,
    _aten.baddbmm.out: _aten.baddbmm.default,
}
"""Operations that write to `out`, and those that return the same."""

_PRODUCTS = (_aten.mm, _aten.bmm, _aten.addmm, _aten.baddbmm)
_OF_DTYPE = {
    getattr(product, name): product.default
    for product in _PRODUCTS
    for name in ("dtype", "dtype_out")
    if name in product.overloads()  # torch 2.8
}
"""Products whose result has a dtype of its own, by the argument `out_dtype`: for CUDA only."""

_STATISTICS = (_aten.native_layer_norm.default, _aten.native_group_norm.default)
"""Operations whose further results stay in float32."""


def run(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call an operation of torch, in float32 if it is one of the table and torch computes it."""
    if func in _OF_DTYPE and _name(func) not in torch.library._impls:
        return _of_dtype(func, args, kwargs)
    if func not in _WIDE or _name(func) in torch.library._impls:
        return func(*args, **kwargs)
    dtype = _half(args)
    if dtype is None:
        return func(*args, **kwargs)
    wide = [_float(value) for value in args]
    options = {name: _float(value) for name, value in kwargs.items() if name != "out"}
    if func in _INTO:
        return kwargs["out"].copy_(_INTO[func](*wide, **options))
    result = func(*wide, **options)
    if isinstance(result, torch.Tensor):
        return result.to(dtype)
    first, *rest = (r if r is None else r.to(dtype) for r in result)
    return (first, *(result[1:] if func in _STATISTICS else rest))


def _of_dtype(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A product with the argument `out_dtype`, in float32."""
    names = [a.name for a in func._schema.arguments]
    values = {**dict(zip(names, args, strict=False)), **kwargs}
    dtype, out = values.pop("out_dtype"), values.pop("out", None)
    result = _OF_DTYPE[func](**{name: _float(value) for name, value in values.items()})
    return result.to(dtype) if out is None else out.copy_(result)


_WIDE = frozenset((*_FUNCTIONAL, *_INTO))


@functools.cache
def _name(func: Any) -> str:
    """The name by which `torch.library` knows that a script replaces an operation."""
    overload = func._overloadname
    return f"aten/{func._opname}{'' if overload == 'default' else f'.{overload}'}/CPU"


def _half(values: Sequence[Any]) -> torch.dtype | None:
    """The dtype of the first tensor, if it has 16 bits."""
    first = next((v for v in values if isinstance(v, torch.Tensor)), None)
    return first.dtype if first is not None and first.dtype in _HALF else None


def _float(value: Any) -> Any:
    half = isinstance(value, torch.Tensor) and value.dtype in _HALF
    return value.float() if half else value
