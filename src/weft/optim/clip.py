"""The norm of all gradients and its clipping, without a wait for the device."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch

from weft.errors import ArgumentError
from weft.ops.core import source
from weft.ops.core.native.loaded import capturing
from weft.optim.bucket import is_dense
from weft.optim.scalars import DTYPES, one
from weft.optim.sharded import is_sharded, local, norm_of_parts
from weft.optim.table import Table

THREADS, ELEMENTS = 512, 65536
ORDERS = {2.0: 2, 1.0: 1, math.inf: 0}
"""The supported norms, and their numbers in the kernel."""
_TABLES: dict[Any, dict[int, Table]] = {}
_REMEMBERED = 32
"""The most tables that are kept; when exceeded, all are dropped."""


def clip_grad_norm_(
    parameters: Any, max_norm: float, norm_type: float = 2.0,
    error_if_nonfinite: bool = False, foreach: bool | None = None,
) -> torch.Tensor:  # fmt: skip
    """Scale gradients so that the norm of all of them is at most max_norm; return the norm.

    As torch.nn.utils.clip_grad_norm_, in one launch for the norm and one for the scaling of each
    dtype. The result is the same in every run. `foreach` has no effect.
    """
    params = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
    grads = [p.grad for p in params if p.grad is not None]
    if not grads:
        return torch.tensor(0.0)
    with torch.no_grad():
        result = norm(grads, float(max_norm), float(norm_type))
        if error_if_nonfinite and not result[0].isfinite():
            raise RuntimeError(
                f"The norm of order {norm_type} of the gradients is not finite: {float(result[0])}"
            )
        for part in _parts(map(local, grads)):
            name = (
                f"scale<{source.ctype(part.dtype)}, {_vector(part.dtype)}, {THREADS}, {ELEMENTS}>"
            )
            kernel = source.kernel("../../optim/norm.cu", name)
            part.table.launch(kernel, THREADS, (result,), [part.dense])
            for grad, dense in zip(part.grads, part.dense, strict=True):
                if grad is not dense:
                    grad.copy_(dense)
    return result[0]


def norm(
    grads: Sequence[Any], max_norm: float, order: float = 2.0, divisor: torch.Tensor | None = None
) -> torch.Tensor:
    """Two numbers: the norm of all gradients over the divisor, and the factor that limits it."""
    _check(grads, order)
    if any(map(is_sharded, grads)):
        return norm_of_parts(
            grads, max_norm, order, lambda parts: norm(parts, max_norm, order, divisor)
        )
    device = grads[0].device
    parts = _parts(grads)
    partials = torch.empty(sum(p.table.chunks for p in parts), dtype=torch.float64, device=device)
    if not len(partials):  # all gradients are empty
        return torch.tensor([0.0, 1.0], device=device)
    parts = [part for part in parts if part.table.chunks]
    result, first = torch.empty(2, device=device), 0
    for part in parts:
        dtype, vector = source.ctype(part.dtype), _vector(part.dtype)
        name = f"norm<{dtype}, {ORDERS[order]}, {vector}, {THREADS}, {ELEMENTS}>"
        total = len(partials) if part is parts[-1] else 0
        args = (part.table.counter, partials, first, total, max_norm,
                one(device) if divisor is None else divisor, result)  # fmt: skip
        part.table.launch(source.kernel("../../optim/norm.cu", name), THREADS, args, [part.dense])
        first += part.table.chunks
    return result


class _Part(NamedTuple):
    """Gradients of one dtype, the same without gaps, and their table."""

    dtype: torch.dtype
    grads: list[Any]
    dense: list[Any]
    table: Table


def _parts(grads: Iterable[Any]) -> list[_Part]:
    by_dtype: dict[torch.dtype, list[Any]] = {}
    for grad in grads:
        by_dtype.setdefault(grad.dtype, []).append(grad)
    return [_part(dtype, some) for dtype, some in by_dtype.items()]


def _part(dtype: torch.dtype, grads: list[Any]) -> _Part:
    device, sizes = grads[0].device, tuple(g.numel() for g in grads)
    table = _table(dtype, device, sizes)
    dense = [g if g.is_contiguous() else _dense(g) for g in grads]
    table.point(0, [g.data_ptr() for g in dense])
    return _Part(dtype, grads, dense, table)


def _table(dtype: torch.dtype, device: torch.device, sizes: tuple[int, ...]) -> Table:
    """The table of the current stream; in a capture, which has its own stream, that of any."""
    stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0
    key = dtype, device, sizes
    tables = _TABLES.get(key, {})
    if tables and capturing():
        return next(iter(tables.values()))
    if stream not in tables:
        if len(_TABLES) >= _REMEMBERED:
            _TABLES.clear()
        tables[stream] = Table(sizes, 1, ELEMENTS, device)
        _TABLES[key] = tables
    return tables[stream]


def _dense(grad: Any) -> Any:
    """The gradient itself where its memory has no gaps, in whatever order, else a copy."""
    return grad if is_dense(grad) else grad.contiguous()


def _vector(dtype: torch.dtype) -> int:
    return 16 // int(dtype.itemsize)


def _check(grads: Sequence[Any], order: float) -> None:
    if order not in ORDERS:
        raise ArgumentError(
            "weft.optim.clip_grad_norm_: there is no such norm",
            got=str(order),
            allowed="2.0, 1.0 or math.inf",
        )
    devices = {g.device for g in grads}
    if len(devices) > 1:
        raise ArgumentError(
            "weft.optim.clip_grad_norm_: the gradients must be on one device",
            got=", ".join(sorted(map(str, devices))),
        )
    for g in grads:
        if g.dtype not in DTYPES or g.is_sparse:
            raise ArgumentError(
                "weft.optim.clip_grad_norm_: no kernel takes this gradient",
                got=f"{g.dtype}, {g.layout}",
                allowed="dense float32, float16, bfloat16",
            )
