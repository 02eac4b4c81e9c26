"""Profiles a PyTorch script: operations and kernels with their work, memory and least time.

The least time of an operation on a GPU is the larger of two: its bytes at the rate of DRAM, and
its floating-point operations at the peak rate of their type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree, flop_counter
from torch.utils.flop_counter import flop_registry

from weft.device.models import GpuModel
from weft.frontends import launches
from weft.frontends.pytorch.attribution import Attribution
from weft.frontends.pytorch.calls import Call
from weft.frontends.pytorch.operations import Operations
from weft.measure.profile import floor

_TENSOR_CORES = {torch.float16: "f16", torch.bfloat16: "bf16"}
_NO_KERNEL = ("empty", "new_empty", "empty_like", "empty_strided", "_local_scalar_dense",
              "lift_fresh", "resize_", "set_")  # fmt: skip
"""Operations that launch nothing on a GPU."""

_ONLY_WRITE = ("fill_", "zero_", "normal_", "uniform_", "bernoulli_", "random_")
_ATTENTION = {
    "_scaled_dot_product_flash_attention_for_cpu": (3, flop_counter.sdpa_flop_count),
    "_scaled_dot_product_flash_attention_for_cpu_backward": (
        4,
        flop_counter.sdpa_backward_flop_count,
    ),
}
"""The CPU's attention, which torch does not count: number of tensors, and what counts them."""


@dataclass
class ModelProfile:
    """The calls of a script in order, and the peak of its memory."""

    gpu: GpuModel
    calls: list[Call] = field(default_factory=list)
    peak: Callable[[], int] = lambda: 0

    def watch(self, mode: Operations) -> None:
        """Records the operations that a mode sees, and Triton's launches."""
        places = Attribution()
        places.install()
        self.peak = lambda: mode.tracker.peak

        def operation(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> None:
            if not _is_view(func) and func._opname not in _NO_KERNEL and _is_real(out):
                self.calls.append(self._operation(func, args, kwargs, out, places, mode))

        def kernel(name: str, launch: Callable[[], Any], arguments: Any) -> None:
            moved, now = sum(map(_bytes, _tensors(arguments))), mode.tracker.now
            seconds = moved / (self.gpu.memory_gb_per_s * 1e9)
            self.calls.append(Call(name, places.place(), 0, moved, 0, now, seconds, kernel=True))

        mode.observers.append(operation)
        launches.recorders.append(kernel)

    def _operation(
        self,
        func: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        out: Any,
        places: Attribution,
        mode: Operations,
    ) -> Call:
        results, changed = _tensors(out), _changed(func, args, kwargs)
        read = [] if func._opname in _ONLY_WRITE else _tensors((args, kwargs))
        written = [*changed, *(t for t in results if all(t is not c for c in changed))]
        moved = sum(map(_bytes, read)) + sum(map(_bytes, written))
        count = _flops(func)
        flops = count(*args, **kwargs, out_val=out) if count else sum(t.numel() for t in written)
        library = count is not None
        before = {t.untyped_storage().data_ptr() for t in _tensors((args, kwargs))}
        new = sum(_bytes(t) for t in results if t.untyped_storage().data_ptr() not in before)
        seconds = max(moved / (self.gpu.memory_gb_per_s * 1e9), flops / self._rate(read, library))
        name, now = f"aten::{func._opname.replace('_for_cpu', '')}", mode.tracker.now
        return Call(name, places.place(), flops, moved, new, now, seconds, library)

    def _rate(self, tensors: Sequence[torch.Tensor], library: bool) -> float:
        """Floating-point operations per second; products of 16 bits use tensor cores."""
        rates = floor.ceilings(self.gpu)
        dtype = next((t.dtype for t in tensors if t.is_floating_point()), torch.float32)
        if library and dtype in _TENSOR_CORES:
            return rates[f"tensor.{_TENSOR_CORES[dtype]}"]
        if library and dtype is torch.float32 and torch.backends.cuda.matmul.allow_tf32:
            return rates["tensor.tf32"]
        return rates["fp64" if dtype is torch.float64 else "fp32"]


def _flops(func: Any) -> Callable[..., Any] | None:
    """Counts the operations of products, convolutions and attention."""
    attention = _ATTENTION.get(func._opname)
    if attention is None:
        counted: Callable[..., Any] | None = flop_registry.get(func._overloadpacket)
        return counted
    shapes, count = attention
    return lambda *args, **_: count(*(tuple(t.shape) for t in args[:shapes]))


def _changed(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    """The arguments that an operation writes."""
    values = {**dict(zip((a.name for a in func._schema.arguments), args, strict=False)), **kwargs}
    written = (
        values.get(a.name)
        for a in func._schema.arguments
        if a.alias_info is not None and a.alias_info.is_write
    )
    return _tensors(list(written))


def _tensors(values: Any) -> list[torch.Tensor]:
    return list(_plain(_pytree.tree_leaves(values)))


def _plain(values: Sequence[Any]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor) and value.layout is torch.strided:
            yield value


def _is_real(out: Any) -> bool:
    """False for the tensors of a trace."""
    return all(type(t) in (torch.Tensor, torch.nn.Parameter) for t in _pytree.tree_leaves(out)
               if isinstance(t, torch.Tensor))  # fmt: skip


def _is_view(func: Any) -> bool:
    """True if all results are views of arguments that stay unchanged."""
    returns = func._schema.returns
    return bool(returns) and all(
        r.alias_info is not None and not r.alias_info.is_write for r in returns
    )


def _bytes(tensor: torch.Tensor) -> int:
    """Bytes of the elements; an expanded dimension has one."""
    elements = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        elements *= size if stride or not size else 1
    return elements * int(tensor.element_size())
