"""The sweep's view of an op: its random calls and the same in torch."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from weft.ops.core import library
from weft.ops.sweep.draw import Call

FLOATS = ("float32", "float16", "bfloat16")
Draw = Callable[[random.Random, int], Call]
Compute = Callable[..., Any]
"""(*tensors, **options) -> a tensor or a tuple of tensors."""


@dataclass(frozen=True)
class Case:
    """Random calls of an op.

    name       the op, and what the calls have in common if it has several cases: "conv2d depthwise"
    draw       a call from a random generator, with at most so many elements in a tensor
    torch      the same by torch, as a user writes it: the peer
    exact      True if the result must be equal, as for copies and indices
    depth      the number of terms that a result sums; the tolerance grows with it
    scale      the reference magnitude for errors if results may cancel: (*tensors, call) -> number
    roundings  how many roundings of the dtype each result may have
    backward   True: results and the gradients of all inputs are computed, checked and timed
    weft       the call by the library, if it is more than the op with its tensors and options
    reference  the computation in float64, if `torch` does not serve
    judge      the error of a random result in units of what is allowed, instead of a reference:
               (result, *tensors) -> number
    shared     True if its kernels differ from another case's in their arithmetic alone: tests
               draw it in the slow set
    peers      other ways of torch to make the call, by name
    """

    name: str
    draw: Draw
    torch: Compute
    exact: bool = False
    depth: Callable[[Call], int] = lambda call: 1
    scale: Callable[..., float] = lambda *tensors_and_call: 0.0
    roundings: float = 4.0
    backward: bool = False
    weft: Compute | None = None
    reference: Compute | None = None
    judge: Callable[..., float] | None = None
    shared: bool = False
    peers: Mapping[str, Compute] = field(default_factory=dict)

    @property
    def op(self) -> str:
        """The op: the first word of the name."""
        return self.name.partition(" ")[0]

    @property
    def call(self) -> Compute:
        """The library's function."""
        function: Compute = library.call(self.op) if self.weft is None else self.weft
        return function

    def with_backward(self, **changes: Any) -> Case:
        """The same calls, forward and backward."""
        return replace(self, **{"name": f"{self.name} backward", "backward": True, **changes})


@dataclass(frozen=True)
class Arguments:
    """The arguments of a call on a device; contenders are functions that get them.

    gradients  of each result that has one, for the backward pass; None: forward only
    """

    tensors: tuple[Any, ...]
    options: Mapping[str, Any]
    gradients: tuple[torch.Tensor, ...] | None = None

    def of(self, function: Compute) -> Any:
        """The results of a function, and the gradients of its inputs after them if wanted."""
        if self.gradients is None:
            return function(*self.tensors, **self.options)
        results = as_tuple(function(*self.tensors, **self.options))
        inputs = [t for t in self.tensors if t is not None and t.requires_grad]
        ends = [r for r in results if r.requires_grad]
        return (*results, *torch.autograd.grad(ends, inputs, self.gradients))

    def contender(self, function: Compute) -> Callable[[], Any]:
        """The call as a user makes it, without arguments, for a clock."""
        if self.gradients is not None:
            return lambda: self.of(function)
        tensors, options = self.tensors, self.options
        return lambda: function(*tensors, **options)

    def double(self) -> Arguments:
        """The same in float64, in memory of its own."""
        return self.widened(torch.float64)

    def widened(self, dtype: torch.dtype) -> Arguments:
        """The same in a wider type, in memory of its own."""
        tensors = tuple(_widened(t, dtype) for t in self.tensors)
        if self.gradients is None:
            return Arguments(tensors, self.options)
        return Arguments(tensors, self.options, tuple(_widened(g, dtype) for g in self.gradients))


def arguments(
    case: Case, call: Call, device: str, generator: torch.Generator | None = None
) -> Arguments:
    """Make the tensors of a call; without a generator their contents are arbitrary."""
    tensors = tuple(
        None if t is None else t.empty(device) if generator is None else t.make(device, generator)
        for t in call.tensors
    )
    if not case.backward:
        return Arguments(tensors, call.options)
    for drawn, tensor in zip(call.tensors, tensors, strict=True):
        if drawn is not None and drawn.grad and tensor is not None:
            tensor.requires_grad_(tensor.is_floating_point() or tensor.is_complex())
    # Without memory: a call that PyTorch fails in is still one of weft.
    results = as_tuple(case.torch(*map(_without_memory, tensors), **call.options))
    made = [_gradient(r, device, generator) for r in results if r.requires_grad]
    gradients = tuple(_in_format(gradient, tensors[0]) for gradient in made)
    return Arguments(tensors, call.options, gradients)


def _without_memory(tensor: torch.Tensor | None) -> torch.Tensor | None:
    if tensor is None:
        return None
    return tensor.detach().to("meta").requires_grad_(tensor.requires_grad)


def _gradient(result: torch.Tensor, device: str, generator: torch.Generator | None) -> torch.Tensor:
    if generator is None:
        return torch.ones(result.shape, dtype=result.dtype, device=device)
    drawn = torch.randn(result.shape, device=generator.device, generator=generator)
    return drawn.to(device, result.dtype)


def _in_format(gradient: torch.Tensor, x: torch.Tensor | None) -> torch.Tensor:
    """The gradient with its channels last if those of x are: the next layer would make it so."""
    last = torch.channels_last
    if x is None or x.dim() != 4 or gradient.dim() != 4 or x.is_contiguous():
        return gradient
    return (
        gradient.contiguous(memory_format=last) if x.is_contiguous(memory_format=last) else gradient
    )


def _widened(tensor: Any, dtype: torch.dtype) -> Any:
    if tensor is None:
        return None
    wide = dtype.to_complex() if tensor.is_complex() else dtype
    floats = tensor.is_floating_point() or tensor.is_complex()
    copy = tensor.detach().to(wide if floats else tensor.dtype, copy=True)
    return copy.requires_grad_(tensor.requires_grad)


def as_tuple(results: Any) -> tuple[Any, ...]:
    """The results of a function that returns one tensor or several."""
    return (results,) if isinstance(results, torch.Tensor) else tuple(results)


# ---- depths and scales -------------------------------------------------------------------------
def terms(call: Call) -> int:
    """The number of elements along the option `dim`."""
    shape, dim = call.shape(), call.options["dim"]
    dims = range(len(shape)) if dim is None else (dim,) if isinstance(dim, int) else dim
    return math.prod(shape[d] for d in dims)


def sums(x: Any, call: Call) -> float:
    """The largest sum of absolute values along the option `dim`."""
    return float(x.double().abs().sum(call.options["dim"]).max()) if x.numel() else 0.0


def find(name: str, cases: Sequence[Case]) -> Case:
    """The case of a name."""
    return next(case for case in cases if case.name == name)
