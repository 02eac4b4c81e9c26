"""layer_norm and rms_norm, alone or of a sum with a residual."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.kernels import cdiv
from weft.ops import library
from weft.ops.bind import batching
from weft.ops.choose import Candidate, Request
from weft.ops.function import Definition
from weft.ops.normalisation.arguments import check_rows, sizes
from weft.ops.normalisation.rows import BLOCK, Job, Way, group, job, parts_of
from weft.ops.plan import Buffer, Plan, Step

HELD = 8
"""The most 16-byte vectors that a thread keeps in registers."""
SM_BANDWIDTH = 50e9
"""Bytes that one SM reads and writes per second when others do little."""


@dataclass(frozen=True)
class Kind:
    """A norm of rows.

    centred  the mean is subtracted, and there is a bias
    added    the rows are a sum of two tensors, which is returned as well
    """

    name: str
    centred: bool
    added: bool

    @property
    def tensors(self) -> int:
        """The tensors of rows that come in."""
        return 1 + self.added


KINDS = (
    Kind("layer_norm", True, False),
    Kind("rms_norm", False, False),
    Kind("add_layer_norm", True, True),
    Kind("add_rms_norm", False, True),
)


# ---- candidates --------------------------------------------------------------------------------
def _candidates(kind: Kind, saved: bool, request: Request) -> list[Candidate]:
    x = request.first
    n = math.prod(request.options["normalized_shape"])
    lead = x.shape[: len(x.shape) - len(request.options["normalized_shape"])]
    outputs = [Buffer(x.shape, x.dtype)] * kind.tensors
    if saved:
        outputs += [Buffer(lead, torch.float32)] * (1 + kind.centred)
    if x.numel == 0:
        zeros = [b._replace(zeroed=True) for b in outputs]
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), tuple(zeros)))]
    rows = range(kind.tensors)
    made = job(request, n, rows, range(kind.tensors, len(request.inputs)), outputs)
    gpu, size = request.target, x.itemsize
    moved = (1 + kind.tensors + kind.added) * x.numel * size
    candidates = []
    threads, held, shared = group(made.chunks, HELD)
    if shared * threads * made.vector * size <= gpu.shared_per_block - 1024:
        busy = moved / made.count / SM_BANDWIDTH
        busy *= cdiv(made.count, gpu.sms * max(1, 1024 // threads))
        time = gpu.launch + max(moved / gpu.bandwidth, busy)
        why = f"{threads} threads per row, {held} vectors of {made.vector} in registers each"
        # Weights that no vector holds are read one by one: once per block instead of once per row.
        keep = made.ragged and not shared and held * made.vector <= 32
        way = Way(threads, held, shared, max(1, 1024 // max(threads, 128)) if keep else 0)
        build = functools.partial(_rows, kind, saved, made, way)
        candidates.append(Candidate("rows", made.cost + time, why, build))
    parts = parts_of(made)
    again = x.numel * size * (0.2 if moved < gpu.l2 else 1)
    time = made.cost + 2 * gpu.launch + (moved + again) / gpu.bandwidth
    why = f"{parts} blocks per row, two passes"
    build = functools.partial(_long, kind, saved, made, parts)
    return [*candidates, Candidate("long rows", time, why, build)]


def _addresses(kind: Kind, saved: bool, made: Job) -> tuple[Any, ...]:
    """The arguments: x, what is added, w, b, y, the sum, mean and rstd."""
    weights = made.inputs[kind.tensors :]
    at = kind.tensors
    return (
        made.inputs[0], made.inputs[1] if kind.added else None,
        weights[0], weights[1] if kind.centred else None,
        made.output(0), made.output(1) if kind.added else None,
        made.output(at) if saved and kind.centred else None,
        made.output(at + kind.centred) if saved else None,
    )  # fmt: skip


def _rows(kind: Kind, saved: bool, made: Job, way: Way) -> Plan:
    threads, held, shared, resident = way
    kernel = made.kernel(
        "rows.cu", "rows", threads, held, shared, kind.centred, kind.added, resident > 0
    )
    memory = shared * threads * made.vector * made.dtype.itemsize
    rest = (made.count, made.n, made.stride, _eps(made.request))
    args = (*_addresses(kind, saved, made), *rest)
    return made.plan(Step(kernel, (way.grid(made),), (way.block,), args, memory))


def _long(kind: Kind, saved: bool, made: Job, parts: int) -> Plan:
    each = cdiv(made.chunks, parts)
    x, added, w, b, y, total, mean, rstd = _addresses(kind, saved, made)
    found = made.extra(0)
    one = made.kernel("rows.cu", "parts_of_rows", kind.centred, kind.added, weights=False)
    two = made.kernel("rows.cu", "finish_rows", kind.centred)
    summed, stride = (total, made.n) if kind.added else (x, made.stride)
    eps, grid = _eps(made.request), (made.count * parts,)
    steps = (
        Step(one, grid, (BLOCK,), (x, added, total, found, made.n, made.stride, parts, each)),
        Step(
            two, grid, (BLOCK,),
            (summed, w, b, y, mean, rstd, found, made.n, stride, eps, parts, each),
        ),
    )  # fmt: skip
    return made.plan(*steps, scratch=(Buffer((made.count * parts, 3), torch.float32),))


def _eps(request: Request) -> float:
    """The option; by default that of float, in which all is computed."""
    eps = request.options["eps"]
    return torch.finfo(torch.float32).eps if eps is None else float(eps)


# ---- definitions -------------------------------------------------------------------------------
def _split(kind: Kind, args: tuple[Any, ...]) -> tuple[Any, Any, tuple[Any, ...]]:
    """(the tensors of rows, the shape, the weights) of a call."""
    t = kind.tensors
    return args[:t], args[t], args[t + 1 : t + 2 + kind.centred]


def _check(kind: Kind, name: str, *args: Any) -> None:
    rows, shape, weights = _split(kind, args)
    named = dict(zip(("weight", "bias"), weights, strict=False))
    check_rows(name, rows[0], shape, **named)
    if kind.added and (rows[1].shape != rows[0].shape or rows[1].dtype != rows[0].dtype):
        raise ArgumentError(
            f"weft.ops.{name}: 'residual' must have input's shape and dtype",
            got=f"{list(rows[1].shape)} of {rows[1].dtype}",
            allowed=f"{list(rows[0].shape)} of {rows[0].dtype}",
        )


def _fake(kind: Kind, saved: bool, *args: Any) -> Any:
    rows, shape, _ = _split(kind, args)
    x = rows[0]
    results = [x.new_empty(x.shape) for _ in range(kind.tensors)]
    if saved:
        lead = x.shape[: x.dim() - len(sizes(shape))]
        results += [x.new_empty(lead, dtype=torch.float32) for _ in range(1 + kind.centred)]
    return results[0] if len(results) == 1 else tuple(results)


def _setup(kind: Kind, ctx: Any, inputs: Any, output: Any) -> None:
    """Keeps the rows, the weight and the statistics."""
    rows, ctx.shape, weights = _split(kind, inputs)
    statistics = output[kind.tensors :]
    ctx.mark_non_differentiable(*statistics)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(output[1] if kind.added else rows[0], weights[0], *statistics)
    ctx.biased = kind.centred and weights[1] is not None


def _backward(kind: Kind, ctx: Any, *grads: Any) -> Any:
    x, weight, *statistics = ctx.saved_tensors
    return _gradients(kind, ctx, x, weight, statistics, grads)


def _setup_again(kind: Kind, ctx: Any, inputs: Any, output: Any) -> None:
    """Keeps the rows and the weight: statistics are computed again."""
    rows, ctx.shape, weights = _split(kind, inputs)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(output[1] if kind.added else rows[0], weights[0])
    ctx.biased = kind.centred and weights[1] is not None
    ctx.eps = inputs[-1]


def _backward_again(kind: Kind, ctx: Any, *grads: Any) -> Any:
    x, weight = ctx.saved_tensors
    bare = library.call(f"{kind.name.removeprefix('add_')}_forward")
    _, *statistics = bare(x.detach(), ctx.shape, eps=ctx.eps)
    return _gradients(kind, ctx, x, weight, statistics, grads)


def _gradients(
    kind: Kind, ctx: Any, x: Any, weight: Any, statistics: Any, grads: tuple[Any, ...]
) -> Any:
    """One gradient per argument."""
    dy = torch.zeros_like(x) if grads[0] is None else grads[0]
    dtotal = grads[1] if kind.added else None
    at = kind.tensors + 1
    wanted = any(ctx.needs_input_grad[at:])
    name = f"{kind.name.removeprefix('add_')}_backward"
    dx, *sums = library.call(name)(dy, x, weight, *statistics, dtotal, ctx.shape, wanted)
    given = (weight is not None, ctx.biased)
    kept = [s if g and wanted else None for s, g in zip(sums, given, strict=False)]
    return (*[dx] * kind.tensors, None, *kept, None)


def _batched(kind: Kind, name: str, info: Any, in_dims: Any, *args: Any) -> Any:
    """A batch of rows is more rows; a batch of weights needs one call each."""
    op = getattr(torch.ops.weft, name)
    if any(isinstance(d, int) for d in in_dims[kind.tensors :]):
        rule = batching.rule(f"weft::{name}", op, "loop")
        return rule(info, in_dims, *args)
    pairs = zip(args[: kind.tensors], in_dims, strict=False)
    rows = [t.expand(info.batch_size, *t.shape) if d is None else t.movedim(d, 0)
            for t, d in pairs]  # fmt: skip
    out = op(*rows, *args[kind.tensors :])
    return out, 0 if isinstance(out, torch.Tensor) else tuple(0 for _ in out)


def _saving(kind: Kind) -> Callable[..., Any]:
    """Calls that need gradients go to the op that returns the statistics as well."""

    def redirect(op: Callable[..., Any]) -> Callable[..., Any]:
        forward = library.call(f"{kind.name}_forward")

        def redirected(*args: Any) -> Any:
            tensors = (a for a in args if isinstance(a, torch.Tensor))
            if not (torch.is_grad_enabled() and any(t.requires_grad for t in tensors)):
                return NotImplemented
            results = forward(*args)
            return results[:2] if kind.added else results[0]

        return redirected

    return redirect


_DOCS = {
    "layer_norm": "Layer norm over the last dimensions, as torch.nn.functional.layer_norm.",
    "rms_norm": "RMS norm over the last dimensions, as torch.nn.functional.rms_norm.",
    "add_layer_norm": "(layer norm of input + residual, input + residual): one pass over memory.",
    "add_rms_norm": "(RMS norm of input + residual, input + residual): one pass over memory.",
}


def _definition(kind: Kind, saved: bool) -> Definition:
    name = f"{kind.name}_forward" if saved else kind.name
    tensors = "Tensor input, Tensor residual" if kind.added else "Tensor input"
    weights = "Tensor? weight=None, Tensor? bias=None" if kind.centred else "Tensor? weight=None"
    eps = "float eps=1e-05" if kind.centred else "float? eps=None"
    results = kind.tensors + saved * (1 + kind.centred)
    returned = ", ".join(["Tensor"] * results)
    return Definition(
        name=name,
        schema=f"({tensors}, int[] normalized_shape, {weights}, {eps}) -> "
        + (f"({returned})" if results > 1 else returned),
        doc=_DOCS[kind.name],
        fake=functools.partial(_fake, kind, saved),
        candidates=functools.partial(_candidates, kind, saved),
        check=functools.partial(_check, kind, kind.name),
        setup=functools.partial(_setup if saved else _setup_again, kind),
        backward=functools.partial(_backward if saved else _backward_again, kind),
        vmap=functools.partial(_batched, kind, name),
        redirect=None if saved else _saving(kind),
        public=not saved,
    )


DEFINITIONS = tuple(_definition(kind, saved) for kind in KINDS for saved in (False, True))
