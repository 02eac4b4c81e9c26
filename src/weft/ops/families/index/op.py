"""gather, index_select and scatter_add: elements by index, and sums by index.

As in PyTorch, sums are deterministic where `torch.use_deterministic_algorithms` asks for it. The
plan of a sum depends on that, and so does a gradient that is a sum. So it is an argument of the ops
that users do not call, and the functions that users call give it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from weft.ops.core import library
from weft.ops.core.bind.autocast import WIDEST
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.plan import Buffer, Layout
from weft.ops.families.index import gather, scatter
from weft.ops.families.index.arguments import check_gather, check_index_select, check_scatter_add
from weft.ops.families.index.model import LEAST_SORTED
from weft.ops.families.index.sums import by_sort, is_sorted, summed
from weft.ops.families.index.walk import full


# ---- candidates --------------------------------------------------------------------------------
def _gather(request: Request) -> list[Candidate]:
    x, index = request.inputs
    assert x is not None and index is not None
    out = Buffer(index.shape, x.dtype)
    return gather.candidates(request, full(index), out)


def _select(request: Request) -> list[Candidate]:
    x, index = request.inputs
    assert x is not None and index is not None
    whole, line = full(x), full(index)
    dim = request.options["dim"] % len(whole.shape)
    shape = tuple(line.shape[0] if d == dim else n for d, n in enumerate(whole.shape))
    strides = tuple(line.strides[0] if d == dim else 0 for d in range(len(shape)))
    out = Buffer(shape if x.shape else (), x.dtype)
    expanded = Layout(index.dtype, shape, strides, index.aligned)
    return gather.candidates(request, expanded, out)


def _scatter_add(request: Request) -> list[Candidate]:
    base, index, src = request.inputs
    assert base is not None and index is not None and src is not None
    return scatter.candidates(request, index, src, base.shape, base)


def _scatter_sum(request: Request) -> list[Candidate]:
    index, src = request.inputs
    assert index is not None and src is not None
    return scatter.candidates(request, index, src, tuple(request.options["shape"]), None)


# ---- gradients ---------------------------------------------------------------------------------
def _setup_gather(ctx: Any, inputs: Any, output: Any) -> None:
    x, ctx.dim, index, ctx.fixed = inputs
    ctx.shape = x.shape
    ctx.save_for_backward(index)


def _gather_backward(ctx: Any, grad: Any) -> Any:
    (index,) = ctx.saved_tensors
    return summed(index, grad, ctx.shape, ctx.dim, ctx.fixed), None, None, None


def _select_backward(ctx: Any, grad: Any) -> Any:
    (index,) = ctx.saved_tensors
    if not ctx.shape:
        return grad, None, None, None
    dim = ctx.dim % len(ctx.shape)
    line = index.reshape([-1 if d == dim else 1 for d in range(len(ctx.shape))])
    return summed(line.expand(grad.shape), grad, ctx.shape, dim, ctx.fixed), None, None, None


def _setup_scatter_add(ctx: Any, inputs: Any, output: Any) -> None:
    _, ctx.dim, index, src, ctx.fixed = inputs
    ctx.shape = src.shape
    ctx.save_for_backward(index)


def _scatter_add_backward(ctx: Any, grad: Any) -> Any:
    (index,) = ctx.saved_tensors
    return grad, None, None, _of_src(ctx, grad, index), None


def _setup_sum(ctx: Any, inputs: Any, output: Any) -> None:
    index, src, _, ctx.dim, ctx.fixed = inputs
    ctx.shape = src.shape
    ctx.save_for_backward(index)


def _sum_backward(ctx: Any, grad: Any) -> Any:
    (index,) = ctx.saved_tensors
    return None, _of_src(ctx, grad, index), None, None, None


def _of_src(ctx: Any, grad: Any, index: Any) -> Any:
    """The gradient of src: zeros where no index reads it."""
    made = library.call("gather_from")(grad, ctx.dim, index, ctx.fixed)
    if made.shape == ctx.shape:
        return made
    whole = grad.new_zeros(ctx.shape)
    if made.numel():
        whole[tuple(slice(n) for n in made.shape)] = made
    return whole


def _setup_keys(ctx: Any, inputs: Any, output: Any) -> None:
    _, _, keys, order, _ = inputs
    ctx.save_for_backward(keys, order)


def _keys_backward(ctx: Any, grad: Any) -> Any:
    keys, order = ctx.saved_tensors
    rows = library.call("select_from")(grad, 0, keys, True)
    base = grad if ctx.needs_input_grad[0] else None
    return base, torch.empty_like(rows).index_copy(0, order, rows), None, None, None


# ---- vmap --------------------------------------------------------------------------------------
def _in_front(size: int, x: Any, at: int | None) -> Any:
    """A tensor whose batch is one more dimension, in front of at least one other."""
    moved = x.expand(size, *x.shape) if at is None else x.movedim(at, 0)
    return moved if moved.dim() > 1 else moved.unsqueeze(1)


def _rank(x: Any, at: int | None) -> int:
    return int(x.dim()) - (at is not None)


def _batched_gather(
    info: Any, in_dims: Any, x: Any, dim: int, index: Any, deterministic: bool = False
) -> Any:
    at = dim % max(_rank(x, in_dims[0]), 1) + 1
    tensors = (
        _in_front(info.batch_size, x, in_dims[0]),
        _in_front(info.batch_size, index, in_dims[2]),
    )
    made = library.call("gather_from")(tensors[0], at, tensors[1], deterministic)
    return (made if _rank(index, in_dims[2]) else made.squeeze(1)), 0


def _batched_sum(
    info: Any, in_dims: Any, x: Any, dim: int, index: Any, src: Any, deterministic: bool = False
) -> Any:
    rank = _rank(x, in_dims[0])
    pairs = ((x, in_dims[0]), (index, in_dims[2]), (src, in_dims[3]))
    base, *rest = (_in_front(info.batch_size, t, at) for t, at in pairs)
    made = library.call("scatter_onto")(base, dim % max(rank, 1) + 1, *rest, deterministic)
    return (made if rank else made.squeeze(1)), 0


def _sorting(op: Callable[..., Any]) -> Callable[..., Any]:
    """Send deterministic sums of many positions in few lines to the ops that sort them."""
    keys, sums = library.call("scatter_keys"), library.call("scatter_by_keys")

    def redirected(input: Any, dim: int, index: Any, src: Any, deterministic: bool) -> Any:
        if not deterministic:
            return NotImplemented
        check_scatter_add(input, dim, index, src)
        if not is_sorted(index, input.shape, dim):
            return NotImplemented
        return by_sort(keys, sums, input, dim, index, src, input.shape)

    return redirected


# ---- the functions that users call -------------------------------------------------------------
_OUT_OF_RANGE = """An index that is out of range fails an assertion of the kernel, as in PyTorch; on
        the simulated GPU that is weft.AssertFailed."""


def _public(op: str, doc: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator: a function of the library that calls `op`."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        function.__doc__ = doc
        # For weft.ops.explain and weft.ops.verify, as of other ops.
        vars(function).update(vars(library.call(op)))
        return function

    return decorate


def _gathering() -> Callable[..., Any]:
    op, fixed = library.call("gather_from"), torch.are_deterministic_algorithms_enabled

    @_public(
        "gather_from",
        f"""The elements of input along dim that index has the places of, as torch.gather.

        {_OUT_OF_RANGE} The gradient is a sum as of scatter_add.
        """,
    )
    def gather(input: Any, dim: int, index: Any) -> Any:
        return op(input, dim, index, fixed())

    return gather


def _selecting() -> Callable[..., Any]:
    op, fixed = library.call("select_from"), torch.are_deterministic_algorithms_enabled

    @_public(
        "select_from",
        f"""The slices of input along dim that a vector has the places of.

        It is torch.index_select. {_OUT_OF_RANGE} The gradient is a sum as of scatter_add.
        """,
    )
    def index_select(input: Any, dim: int, index: Any) -> Any:
        return op(input, dim, index, fixed())

    return index_select


def _adding() -> Callable[..., Any]:
    op, fixed = library.call("scatter_onto"), torch.are_deterministic_algorithms_enabled

    @_public(
        "scatter_onto",
        f"""input with src added at the places along dim that index has, as torch.scatter_add.

        Sums of half precision are added in float32. Their order depends on timing, unless
        torch.use_deterministic_algorithms(True) is set: then it is that of the positions, and
        torch.sort orders many positions in few lines. {_OUT_OF_RANGE}
        """,
    )
    def scatter_add(input: Any, dim: int, index: Any, src: Any) -> Any:
        return op(input, dim, index, src, fixed())

    return scatter_add


def _selected(x: Any, dim: int, index: Any, deterministic: bool = False) -> Any:
    shape = list(x.shape)
    if shape:
        shape[dim] = index.numel()
    return x.new_empty(shape)


def _fake_scatter_add(
    input: Any, dim: int, index: Any, src: Any, deterministic: bool = False
) -> Any:
    check_scatter_add(input, dim, index, src)
    return input.new_empty(input.shape)


GROUP = "indexing"
DEFINITIONS = (
    Definition(
        name="gather_from",
        schema="(Tensor input, int dim, Tensor index, bool deterministic=False) -> Tensor",
        doc="gather, whose gradient is a sum in a fixed order, or in any.",
        fake=lambda input, dim, index, deterministic=False: input.new_empty(index.shape),
        candidates=_gather,
        check=lambda input, dim, index, deterministic: check_gather(input, dim, index),
        setup=_setup_gather,
        backward=_gather_backward,
        vmap=_batched_gather,
        autocast=None,
        public=False,
    ),
    Definition(
        name="select_from",
        schema="(Tensor input, int dim, Tensor index, bool deterministic=False) -> Tensor",
        doc="index_select, whose gradient is a sum in a fixed order, or in any.",
        fake=_selected,
        candidates=_select,
        check=lambda input, dim, index, deterministic: check_index_select(input, dim, index),
        setup=_setup_gather,
        backward=_select_backward,
        autocast=None,
        public=False,
    ),
    Definition(
        name="scatter_onto",
        schema="(Tensor input, int dim, Tensor index, Tensor src,"
        " bool deterministic=False) -> Tensor",
        doc="scatter_add in a fixed order, or in any.",
        fake=_fake_scatter_add,
        candidates=_scatter_add,
        check=lambda input, dim, index, src, deterministic: check_scatter_add(
            input, dim, index, src
        ),
        setup=_setup_scatter_add,
        backward=_scatter_add_backward,
        vmap=_batched_sum,
        autocast=WIDEST,
        redirect=_sorting,
        planless=f"deterministic and index.numel() >= {LEAST_SORTED}",
        public=False,
    ),
    Definition(
        name="scatter_sum",
        schema="(Tensor index, Tensor src, int[] shape, int dim, bool deterministic) -> Tensor",
        doc="scatter_add to zeros of a shape.",
        fake=lambda index, src, shape, dim, deterministic: src.new_empty(shape),
        candidates=_scatter_sum,
        setup=_setup_sum,
        backward=_sum_backward,
        autocast=None,
        public=False,
    ),
    Definition(
        name="scatter_keys",
        schema="(Tensor index, int[] shape, int dim) -> Tensor",
        doc="The places in a tensor of a shape that scatter_add adds to, one after the other.",
        fake=lambda index, shape, dim: index.new_empty((index.numel(),), dtype=torch.int64),
        candidates=scatter.keys,
        autocast=None,
        public=False,
    ),
    Definition(
        name="scatter_by_keys",
        schema="(Tensor? base, Tensor src, Tensor keys, Tensor order, int rows) -> Tensor",
        doc="base, or zeros, with rows of src added: keys are sorted, order has their rows.",
        fake=lambda base, src, keys, order, rows: src.new_empty((rows, src.shape[1])),
        candidates=scatter.by_keys,
        setup=_setup_keys,
        backward=_keys_backward,
        autocast=None,
        public=False,
    ),
)
MAKERS = {"gather": _gathering, "index_select": _selecting, "scatter_add": _adding}
