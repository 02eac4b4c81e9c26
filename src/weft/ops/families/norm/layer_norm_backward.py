"""The backward ops of layer_norm and rms_norm."""

from __future__ import annotations

import functools
import math
from typing import Any

import torch

from weft.kernels import cdiv
from weft.ops.core.bind.derive import derive
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.plan import Buffer, Plan, Step
from weft.ops.families.norm import model
from weft.ops.families.norm.column_sums import with_sums
from weft.ops.families.norm.rows import BLOCK, RowJob, RowStrategy, parts_of, row_job
from weft.ops.families.norm.streamed.stream import VECTOR_BYTES, RowStream, stream_of


def _candidates(centred: bool, request: Request) -> list[Candidate]:
    x, weight = request.inputs[1], request.inputs[2]
    assert x is not None
    dtotal, wanted = request.inputs[-1], request.options["weights"]
    shape = tuple(request.options["normalized_shape"])
    n = math.prod(shape)
    dtype = x.dtype if weight is None else weight.dtype
    sums = Buffer(shape if wanted else (0,), dtype, zeroed=x.numel == 0)
    outputs = (Buffer(x.shape, x.dtype), *[sums] * (1 + centred))
    if x.numel == 0:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), outputs))]
    rows = (0, 1) if dtotal is None else (0, 1, len(request.inputs) - 1)
    return gradients_of_rows(centred, row_job(request, n, rows, (2,), outputs))


def gradients_of_rows(centred: bool, made: RowJob) -> list[Candidate]:
    """Candidates of a job whose inputs are dy, x, the weight, statistics and maybe dtotal."""
    gpu, (added, wanted) = made.request.target, _flags(centred, made)
    size = made.count * made.n * made.dtype.itemsize
    moved = (3 + added) * size
    parts = parts_of(made)
    rate = model.WEIGHTS_RATE if wanted else 1.0
    time = model.two_pass_time(gpu, moved / rate, 2 * size, moved, launches=2 + wanted)
    why = f"{parts} blocks per row, two passes"
    build = functools.partial(_long, centred, made, parts)
    candidates = [Candidate("long rows", made.cost + time, why, build)]
    threads = _threads(made.chunks)
    registers = cdiv(made.chunks, threads)
    if registers <= model.BACKWARD_VECTORS:
        time = model.stream_time(gpu, moved / rate, launches=1 + wanted)
        why = f"{threads} threads per row, {registers} vectors of {made.vector} in registers each"
        strategy = RowStrategy(threads, registers, resident=1024 // max(threads, 128))
        build = functools.partial(_rows, centred, made, strategy)
        candidates.insert(0, Candidate("rows", made.cost + time, why, build))
        if wanted:
            candidates.insert(0, _in_one_launch(centred, made, moved, 2 * size))
    if wanted and (by := stream_of(made, (2 + added) * VECTOR_BYTES)) is not None:
        build = functools.partial(_streamed, centred, made, by)
        candidates.insert(0, Candidate("streamed rows", made.cost + by.time(moved), by.why, build))
    return candidates


def _streamed(centred: bool, made: RowJob, by: RowStream) -> Plan:
    added, _ = _flags(centred, made)
    step = by.step((centred, added), _addresses(centred, made))
    return with_sums(centred, made, by.grid, (step,))


def _in_one_launch(centred: bool, made: RowJob, moved: float, again: float) -> Candidate:
    """The candidate whose first blocks have all rows of some columns, for gradients of weights."""
    gpu, threads = made.request.target, _column_threads(made)
    registers = cdiv(made.chunks, threads)
    block = 256 if threads <= 32 else threads
    vector = 1 if made.ragged else made.vector
    widths = (model.RAGGED_WIDTH,) if made.ragged else model.COLUMN_WIDTHS
    blocks = [(w, cdiv(made.n, w * vector)) for w in widths]
    width, slabs = next((b for b in blocks if b[1] <= model.COLUMN_SLABS * gpu.sms), blocks[-1])
    if width == 2 and 4 * made.count <= model.SHORT_COLUMN * block:
        width, slabs = blocks[1]
    time = made.cost + model.joint_time(gpu, moved, again, made.count, block // width)
    why = f"{threads} threads per row, {slabs} blocks for columns of {width} vectors"
    strategy = RowStrategy(threads, registers, resident=1024 // block, least=block)
    build = functools.partial(_joint, centred, made, strategy, width, slabs)
    return Candidate("rows and weights", time, why, build)


def _column_threads(made: RowJob) -> int:
    """Threads of a row beside blocks that sum columns."""
    if made.chunks <= 128 and (made.count >= made.request.target.sms or made.chunks <= 32):
        return _threads(made.chunks)
    least = model.COLUMN_BLOCKS[made.count > model.FEW_COLUMN_ROWS]
    wanted = cdiv(made.chunks, 1 if made.chunks <= 128 else model.COLUMN_VECTORS)
    return max(min(least, 1 << (made.chunks - 1).bit_length()), 1 << (wanted - 1).bit_length())


def _joint(centred: bool, made: RowJob, strategy: RowStrategy, width: int, slabs: int) -> Plan:
    added, _ = _flags(centred, made)
    shape = (strategy.threads, strategy.registers)
    flags = (centred, added, width, strategy.block)
    kernel = made.kernel("rows_backward.cu", "rows_and_weights", *shape, *flags)
    weights = (made.output(1), made.output(2) if centred else None)
    args = (*_addresses(centred, made), *weights, made.count, made.n, slabs)
    grid = (slabs + strategy.grid(made),)
    return made.plan(Step(kernel, grid, (strategy.block,), args, early=True))


def _threads(chunks: int) -> int:
    """Threads for a row: up to a warp with several vectors each, else one vector each if possible.

    Sums of gradients take two registers for each element, so few elements leave more blocks.
    """
    if chunks > 1024:  # of 1024 threads, each would have too few registers for two vectors
        return 512
    return 1 << (cdiv(chunks, 4 if chunks <= 128 else 1) - 1).bit_length()


def _addresses(centred: bool, made: RowJob) -> tuple[Any, ...]:
    """The arguments: dy, x, w, mean and rstd, the gradient of the sum, dx."""
    dy, x, w, *rest = made.inputs
    mean, rstd, *dtotal = rest if centred else (None, *rest)
    return dy, x, w, mean, rstd, dtotal[0] if dtotal else None, made.output(0)


def _flags(centred: bool, made: RowJob) -> tuple[bool, bool]:
    """(a gradient is added, gradients of weights are wanted)."""
    added = made.inputs[4 + centred :]
    return bool(added) and added[0] is not None, bool(made.request.options["weights"])


def _rows(centred: bool, made: RowJob, strategy: RowStrategy) -> Plan:
    added, wanted = _flags(centred, made)
    shape = (strategy.threads, strategy.registers)
    kernel = made.kernel("rows_backward.cu", "rows", *shape, centred, added, wanted)
    args = (*_addresses(centred, made), made.extra(0) if wanted else None, made.count, made.n)
    memory = 8 * strategy.rows * made.n if wanted and strategy.rows > 1 else 0
    grid = strategy.grid(made)
    step = Step(kernel, (grid,), (strategy.block,), args, memory, early=True)
    return _summed(centred, made, grid, (step,))


def _long(centred: bool, made: RowJob, parts: int) -> Plan:
    added, wanted = _flags(centred, made)
    dy, x, w, mean, rstd, dtotal, dx = _addresses(centred, made)
    name = "rows_backward.cu"
    first = made.kernel(name, "parts_of_rows", centred)
    second = made.kernel(name, "finish_rows", centred, added, wanted)
    slabs = cdiv(made.chunks, BLOCK)
    cycle = made.vector // math.gcd(made.vector, made.n)
    most = cdiv(8 * made.request.target.sms, slabs)
    blocks = min(made.count, max(cycle, most - most % cycle))
    whole = wanted and blocks == 1  # a block has all rows of its columns
    apart = wanted and not whole
    sums, partial = made.extra(1 if apart else 0), made.extra(0) if apart else None
    inputs = (dy, x, w, mean, rstd)
    shape = (made.n, parts)
    weights = (made.output(1), made.output(2) if centred else None) if whole else (None, None)
    steps = (
        Step(first, (made.count * parts,), (BLOCK,),
             (*inputs, sums, *shape, cdiv(made.chunks, parts))),
        Step(second, (slabs * blocks,), (BLOCK,),
             (*inputs, dtotal, dx, sums, partial, *weights, made.count, *shape, slabs)),
    )  # fmt: skip
    scratch = Buffer((made.count * parts, 2), torch.float32)
    if whole:
        return made.plan(*steps, scratch=(scratch,))
    return _summed(centred, made, blocks, steps, scratch)


def _summed(
    centred: bool, made: RowJob, blocks: int, steps: tuple[Step, ...], *scratch: Buffer
) -> Plan:
    """Add the sum of gradients of weights where they are wanted."""
    if not _flags(centred, made)[1]:
        return made.plan(*steps, scratch=scratch)
    return with_sums(centred, made, blocks, steps, *scratch)


# ---- definitions -------------------------------------------------------------------------------
def _fake(centred: bool, dy: Any, x: Any, weight: Any, *rest: Any) -> Any:
    shape, wanted = rest[-2:]
    dtype = x.dtype if weight is None else weight.dtype
    sums = [x.new_empty(shape if wanted else (0,), dtype=dtype) for _ in range(1 + centred)]
    return x.new_empty(x.shape), *sums


def _setup(centred: bool, ctx: Any, inputs: Any, output: Any) -> None:
    *tensors, ctx.shape, ctx.wanted = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*tensors)


def _backward(centred: bool, ctx: Any, *grads: Any) -> Any:
    """Second derivatives, by torch: the first ones written out and differentiated."""
    dy, x, weight, *_, rstd, dtotal = ctx.saved_tensors
    inputs = [t for t in (dy, x, weight) if t is not None]
    found = derive(functools.partial(_written_out, centred, ctx, rstd), inputs, grads)
    missing = [None] * (3 - len(inputs) + 1 + centred)  # no weight; statistics follow from x
    return (*found, *missing, None if dtotal is None else grads[0], None, None)


def _written_out(
    centred: bool, ctx: Any, rstd: Any, dy: Any, x: Any, weight: Any = None
) -> tuple[Any, ...]:
    dims = tuple(range(-len(ctx.shape), 0))
    wide = x.float()
    z = wide - wide.mean(dims, keepdim=True) if centred else wide
    squares = z.square().mean(dims, keepdim=True)
    # rstd is 1 / sqrt(squares + eps), with an eps that is not known here.
    eps = rstd.reshape(squares.shape) ** -2 - squares.detach()
    scale = (squares + eps).rsqrt()
    z = z * scale
    g = dy.float() if weight is None else dy.float() * weight.float()
    dx = g - z * (g * z).mean(dims, keepdim=True)
    if centred:
        dx = dx - g.mean(dims, keepdim=True)
    lead = tuple(range(x.dim() - len(dims)))
    dtype = x.dtype if weight is None else weight.dtype
    sums = [(dy.float() * z), dy.float()] if ctx.wanted else []
    return (dx * scale).to(x.dtype), *((s.sum(lead) if lead else s).to(dtype) for s in sums)


def _definition(name: str, centred: bool) -> Definition:
    statistics = "Tensor mean, Tensor rstd" if centred else "Tensor rstd"
    returned = "Tensor, Tensor, Tensor" if centred else "Tensor, Tensor"
    return Definition(
        name=f"{name}_backward",
        schema=f"(Tensor dy, Tensor x, Tensor? weight, {statistics}, Tensor? dtotal,"
        f" int[] normalized_shape, bool weights) -> ({returned})",
        doc=f"The gradients of {name}'s input and weights.",
        fake=functools.partial(_fake, centred),
        candidates=functools.partial(_candidates, centred),
        setup=functools.partial(_setup, centred),
        backward=functools.partial(_backward, centred),
        public=False,
    )


DEFINITIONS = (_definition("layer_norm", True), _definition("rms_norm", False))
