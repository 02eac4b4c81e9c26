"""A fused function inside torch.compile: one operation of the graph, `weft::fused`.

torch traces `in_graph` without looking into the function. The operation has the number of a `Call`,
which has the function and its arguments beside tensors. Random numbers of dropout begin where
tensors say, which torch draws in the graph.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
from torch.utils import _pytree as pytree

from weft.errors import ArgumentError
from weft.ops.families.random.start import Start, start
from weft.ops.fuse.arguments import Arguments, arguments_of
from weft.ops.fuse.masks import Dropouts, Starts
from weft.ops.fuse.program import FusedProgram

Tensors = Sequence[torch.Tensor]


class FusedFunction(Protocol):
    """The interface of a fused function for its torch operation; see fused.py."""

    name: str
    function: Callable[..., Any]

    def program(self, rest: Arguments, tensors: Tensors) -> FusedProgram: ...

    def backward(
        self, rest: Arguments, tensors: Tensors, wanted: tuple[int, ...], gradients: Tensors,
        starts: Starts,
    ) -> Any: ...  # fmt: skip


class FusedCall(NamedTuple):
    """A fused function with its arguments beside tensors."""

    fused: FusedFunction
    rest: Arguments


_FUSED: weakref.WeakValueDictionary[int, FusedFunction] = weakref.WeakValueDictionary()
_NUMBERS = itertools.count()
_CALLS: dict[FusedCall, int] = {}
_BY_NUMBER: list[FusedCall] = []

_KEYS = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
"""The dispatch keys of plain code: a kernel of torch runs with fewer, and cannot trace."""

_LIBRARY = torch.library.Library("weft", "FRAGMENT")
_LIBRARY.define("fused(Tensor[] tensors, Tensor[] states, int call) -> Tensor[]")
_LIBRARY.define(
    "fused_backward(Tensor[] tensors, Tensor[] gradients, Tensor[] states, int call, int[] wanted)"
    " -> Tensor[]"
)


def registered(fused: FusedFunction) -> int:
    """The number of a fused function, by which a graph finds it."""
    number = next(_NUMBERS)
    _FUSED[number] = fused
    return number


@torch.compiler.allow_in_graph  # type: ignore[untyped-decorator]
def in_graph(number: int, args: Any, kwargs: Any) -> Any:
    """Call a fused function as one operation."""
    fused = _FUSED[number]
    rest, tensors = arguments_of(fused.name, args, kwargs)
    if any(isinstance(a, torch.SymInt | torch.SymFloat) for a in rest.leaves):
        return fused.function(*args, **kwargs)  # a number that the graph computes
    with disable_proxy_modes_tracing(), torch.no_grad(), Dropouts() as dropouts:
        made = rest.call(fused.function, tensors)
    leaves, shape = pytree.tree_flatten(made)
    if isinstance(made, dict) or not all(isinstance(value, torch.Tensor) for value in leaves):
        raise ArgumentError(
            f"weft.fuse: '{fused.name}' returns what an operation of a graph cannot",
            got=f"{type(made).__name__} of {', '.join(type(value).__name__ for value in leaves)}",
            allowed="a tensor, or a tuple or list of tensors, inside torch.compile",
        )
    states = [start("dropout", 1, tensors[0].device).state for _ in range(dropouts.count)]
    results = torch.ops.weft.fused(tensors, states, _number(FusedCall(fused, rest)))
    return pytree.tree_unflatten(results, shape)


def _number(call: FusedCall) -> int:
    if call not in _CALLS:
        _CALLS[call] = len(_BY_NUMBER)
        _BY_NUMBER.append(call)
    return _CALLS[call]


def _starts(states: Tensors) -> Starts:
    return {number: Start(0, 0, state) for number, state in enumerate(states)}


# ---- the operation -----------------------------------------------------------------------------
@torch.library.register_fake("weft::fused", lib=_LIBRARY)  # type: ignore[untyped-decorator]
def _fake(tensors: Tensors, states: Tensors, call: int) -> Any:
    fused, rest = _BY_NUMBER[call]
    with torch.no_grad(), Dropouts():
        results = pytree.tree_leaves(rest.call(fused.function, tensors))
    return [_like(r) for r in results]


def _like(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)


def _forward(tensors: Tensors, states: Tensors, call: int) -> Any:
    fused, rest = _BY_NUMBER[call]
    with torch._C._ForceDispatchKeyGuard(*_KEYS):
        program = fused.program(rest, tensors)
    results = pytree.tree_leaves(program(tensors, _starts(states)))
    expected = [n.meta["val"].stride() for n in pytree.tree_leaves(program.output)]
    taken = {t.untyped_storage().data_ptr() for t in tensors}
    returned = []
    for result, strides in zip(results, expected, strict=True):
        storage = result.untyped_storage().data_ptr()
        # An operation returns new tensors, with the strides that the graph was compiled for.
        if storage in taken or result.stride() != strides:
            result = _strided(result, strides)
        taken.add(storage)
        returned.append(result)
    return returned


def _strided(x: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    made = torch.empty_strided(x.shape, strides, dtype=x.dtype, device=x.device)
    return made.copy_(x)


# ---- its gradient ------------------------------------------------------------------------------
@torch.library.register_fake(  # type: ignore[untyped-decorator]
    "weft::fused_backward", lib=_LIBRARY
)
def _fake_backward(
    tensors: Tensors, gradients: Tensors, states: Tensors, call: int, wanted: Sequence[int]
) -> Any:
    return [
        torch.empty(tensors[i].shape, dtype=tensors[i].dtype, device=tensors[i].device)
        for i in wanted
    ]


def _backward(
    tensors: Tensors, gradients: Tensors, states: Tensors, call: int, wanted: Sequence[int]
) -> Any:
    fused, rest = _BY_NUMBER[call]
    with torch._C._ForceDispatchKeyGuard(*_KEYS), torch.no_grad():
        found = fused.backward(rest, tensors, tuple(wanted), gradients, _starts(states))
    taken = {t.untyped_storage().data_ptr() for t in (*tensors, *gradients)}
    returned = []
    for result in found:
        result = result.contiguous()
        if result.untyped_storage().data_ptr() in taken:
            result = result.clone()
        taken.add(result.untyped_storage().data_ptr())
        returned.append(result)
    return returned


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    tensors, states, ctx.call = inputs
    ctx.count = len(tensors)
    ctx.results = [(r.shape, r.dtype, r.device) for r in output]
    ctx.save_for_backward(*tensors, *states)


def _gradients(ctx: Any, gradients: Sequence[Any]) -> Any:
    saved = ctx.saved_tensors
    tensors, states = list(saved[: ctx.count]), list(saved[ctx.count :])
    wanted = [i for i, needed in enumerate(ctx.needs_input_grad[0]) if needed]
    given = [
        torch.zeros(shape, dtype=dtype, device=device) if g is None else g
        for g, (shape, dtype, device) in zip(gradients, ctx.results, strict=True)
    ]
    found = torch.ops.weft.fused_backward(tensors, given, states, ctx.call, wanted)
    results: list[Any] = [None] * ctx.count
    for i, gradient in zip(wanted, found, strict=True):
        results[i] = gradient
    return results, [None] * len(states), None


_LIBRARY.impl("fused", _forward, "CompositeExplicitAutograd")
_LIBRARY.impl("fused_backward", _backward, "CompositeExplicitAutograd")
torch.library.register_autograd("weft::fused", _gradients, setup_context=_setup, lib=_LIBRARY)
