"""Reductions of NCCL by those of Gloo, which has no averages, factors, booleans and fp8."""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch._C import _distributed_c10d as c10d

from weft.frontends.pytorch.distributed.transport import transfer

_Kind: Any = c10d.ReduceOp.RedOpType

_OF_GLOO = frozenset(
    (
        torch.float32, torch.float64, torch.float16, torch.bfloat16,
        torch.int8, torch.uint8, torch.int32, torch.int64,
    )
)  # fmt: skip
_FP8 = (torch.float8_e4m3fn, torch.float8_e5m2)
_OF_BOOLEANS = {"SUM": "MAX", "PRODUCT": "MIN"}
"""A sum of booleans is true if one of them is, a product if all are."""
_OF_BITS = ("BAND", "BOR", "BXOR")
_LINEAR = ("SUM", "AVG", "PREMUL_SUM")

_given = threading.local()
"""`factor`, that of the PREMUL_SUM which this thread put into options: operators do not pass it."""


class Reduction:
    """One `ReduceOp`, for the tensors of one call."""

    def __init__(self, kind: int, nccl: bool) -> None:
        self._name = str(_Kind(kind).name)
        self._nccl = nccl
        self._factor = getattr(_given, "factor", None) if self._name == "PREMUL_SUM" else None

    def __str__(self) -> str:
        factor = "" if self._factor is None else f" by {float(self._factor):g}"
        return self._name.lower() + factor

    def refuse(self, tensors: Any) -> None:
        """Raise for reductions and dtypes that NCCL does not take."""
        if self._nccl and self._name in _OF_BITS:
            raise ValueError(f"Cannot use ReduceOp.{self._name} with NCCL")
        for tensor in tensors:
            self._refuse(tensor.dtype)

    def _refuse(self, dtype: torch.dtype) -> None:
        if dtype is torch.bool:
            if self._name in _LINEAR[1:]:
                raise TypeError(f"Cannot use ReduceOp.{self._name} with Boolean inputs")
        elif dtype.is_complex:
            if self._name not in _LINEAR:
                raise ValueError(f"all_reduce does not support {self._name} on complex tensors")
        elif dtype not in (*_OF_GLOO, *_FP8):
            raise TypeError(
                f"Input tensor data type is not supported for NCCL process group: {dtype}\n"
                f"  allowed: {', '.join(sorted(str(d) for d in (*_OF_GLOO, *_FP8, torch.bool)))}"
            )

    def run(self, gloo: Any, tensor: Any) -> Any:
        """Reduce a tensor in place over all ranks and return it."""
        if tensor.is_sparse:
            self._reduce(gloo, tensor)
        elif tensor.numel():
            dense = tensor.contiguous()
            if dense.dtype in _FP8:
                wide = dense.float()
                self._reduce(gloo, wide)
                dense.copy_(wide)
            else:
                self._reduce(gloo, _as_gloo_takes(dense), dense.dtype is torch.bool)
            if dense is not tensor:
                tensor.copy_(dense)
        return tensor

    def _reduce(self, gloo: Any, tensor: Any, boolean: bool = False) -> None:
        average = self._name == "AVG"
        if average and tensor.is_floating_point():  # as NCCL does: no sum overflows
            tensor.mul_(1 / gloo.size())
        elif self._factor is not None:
            tensor.mul_(self._factor)
        options = c10d.AllreduceOptions()
        name = "SUM" if self._name in _LINEAR else self._name
        kind = _OF_BOOLEANS.get(name, name) if boolean else name
        options.reduceOp = c10d.ReduceOp(getattr(_Kind, kind))
        transfer(gloo.allreduce, [tensor], options)
        if average and not tensor.is_floating_point():
            tensor.floor_divide_(gloo.size())


def _as_gloo_takes(tensor: Any) -> Any:
    """The same memory, with a dtype of Gloo."""
    if tensor.dtype is torch.bool:
        return tensor.view(torch.uint8)
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def options() -> dict[str, Any]:
    """Name of a class of options -> one that keeps the factor of its reduction."""
    names = ("AllreduceOptions", "AllreduceCoalescedOptions", "ReduceOptions",
             "ReduceScatterOptions")  # fmt: skip
    return {name: _keeping(getattr(c10d, name)) for name in names}


def _keeping(base: Any) -> Any:
    def get(value: Any) -> Any:
        return base.reduceOp.__get__(value)

    def put(value: Any, reduction: Any) -> None:
        _given.factor = getattr(reduction, "factor", None)
        base.reduceOp.__set__(value, reduction)

    return type(base.__name__, (base,), {"reduceOp": property(get, put)})
