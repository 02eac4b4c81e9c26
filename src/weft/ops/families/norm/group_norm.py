"""group_norm, forward and backward. A row is a group of channels of one element of the batch."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from weft.errors import ArgumentError
from weft.kernels import cdiv
from weft.ops.core import library, source
from weft.ops.core.bind.derive import derive
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.plan import COUNTERS, Buffer, Counters, Layout, Plan, Pointer, Step
from weft.ops.families.norm import groups_last, model
from weft.ops.families.norm.arguments import LONGEST, check_dtype, check_weights
from weft.ops.families.norm.channels import result_like
from weft.ops.families.norm.forward import RowNorm, candidates
from weft.ops.families.norm.layer_norm_backward import gradients_of_rows
from weft.ops.families.norm.rows import BLOCK, RowJob, parts_of, row_job
from weft.ops.families.norm.saving import saving

KIND = RowNorm("group_norm", centred=True, added=False)


# ---- candidates --------------------------------------------------------------------------------
def _group_job(request: Request, x: Layout, rows: Any, weights: Any, outputs: Any) -> RowJob:
    groups = request.options["num_groups"]
    inner = math.prod(x.shape[2:])
    n = x.shape[1] // groups * inner
    forward = len(rows) == 1
    return row_job(request, n, rows, weights, outputs, inner, groups, forward=forward)


def forward(saved: bool, request: Request) -> list[Candidate]:
    x = request.first
    statistics = Buffer((x.shape[0], request.options["num_groups"]), torch.float32)
    last = groups_last.stays_last(x, request.options["num_groups"])
    result = groups_last.result(x) if last else Buffer(x.shape, x.dtype)
    outputs = (result, *[statistics] * (2 * saved))
    if x.numel == 0:
        zeros = tuple(b._replace(zeroed=True) for b in outputs)
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), zeros))]
    if last:
        return groups_last.forward(request, outputs)
    return candidates(KIND, saved, _group_job(request, x, (0,), (1, 2), outputs))


def _backward(request: Request) -> list[Candidate]:
    x, weight = request.inputs[1:3]
    assert x is not None
    wanted = request.options["weights"]
    dtype = x.dtype if weight is None else weight.dtype
    sums = Buffer(x.shape[1:2] if wanted else (0,), dtype, zeroed=x.numel == 0)
    last = groups_last.stays_last(x, request.options["num_groups"])
    outputs = (groups_last.result(x) if last else Buffer(x.shape, x.dtype), sums, sums)
    if x.numel == 0:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), outputs))]
    if last:
        return groups_last.backward(request, outputs, weight_sums)
    groups, inner = request.options["num_groups"], math.prod(x.shape[2:])
    if (weight is None and not wanted) or (groups == 1 and inner == 1):  # as layer_norm's
        n = x.shape[1] // groups * inner
        return gradients_of_rows(True, row_job(request, n, (0, 1), (2,), outputs))
    made = _group_job(request, x, (0, 1), (2,), outputs)
    gpu = request.target
    moved = x.numel * x.itemsize
    time = made.cost + model.two_pass_time(gpu, 3 * moved, 2 * moved, 2 * moved, 2 + wanted)
    why = f"sums of {x.shape[0] * x.shape[1]} planes, then gradients"
    build = functools.partial(_planes, made, x.shape[:2], wanted)
    candidates = [Candidate("planes", time, why, build)]
    tile = _tile(made, x.shape[1])
    if tile is not None:
        ample, penalty = model.BACKWARD_TILE_BYTES, model.BACKWARD_TILE_PENALTY
        time = made.cost + (1 + wanted) * gpu.launch
        time += model.tile_time(gpu, 3 * moved, tile.memory, ample, penalty)
        why = f"{tile.rows} rows of {made.n} elements in shared memory per block"
        build = functools.partial(_rows, made, x.shape[:2], wanted, tile)
        candidates.append(Candidate("rows", time, why, build))
    return candidates


class RowTile(NamedTuple):
    """The rows of a block that holds them in shared memory.

    vector  elements that are copied at once
    memory  bytes
    """

    rows: int
    vector: int
    memory: int


def _tile(made: RowJob, channels: int) -> RowTile | None:
    """The rows of a block, which begin where vectors do; None if they do not fit."""
    size, share = int(made.dtype.itemsize), channels // made.groups
    own = (made.request.inputs[i] for i in (0, 1) if made.inputs[i] == Pointer(i))
    vector = min((t.aligned for t in own if t is not None), default=16) // size
    each = 2 * made.n * size + 16 * share + 4
    room = min(model.GROUP_TILE_BYTES, made.request.target.shared_per_sm // 2 - 1024)

    def least(vector: int) -> int:
        """Bytes of the fewest rows that are whole vectors."""
        return vector // math.gcd(vector, made.n) * each

    # Copies of 8 bytes are good enough where they leave more blocks.
    while vector and (
        least(vector) > room
        or (
            vector * size > 8 and least(vector) > max(model.BACKWARD_TILE_BYTES, least(vector // 2))
        )
    ):
        vector //= 2
    if not vector or share > made.n // 2:  # planes of single elements take more than the rows
        return None
    rows = vector // math.gcd(vector, made.n)
    blocks = model.BACKWARD_BLOCKS_PER_SM * made.request.target.sms
    while 2 * rows * each <= model.BACKWARD_TILE_BYTES and 2 * rows * blocks <= made.count:
        rows *= 2
    return RowTile(rows, vector, rows * each)


def _rows(made: RowJob, shape: tuple[int, ...], wanted: bool, tile: RowTile) -> Plan:
    share = shape[1] // made.groups
    lanes, over = (1 << max(0, min(5, n.bit_length() - 1)) for n in (made.inner // 2, share))
    types = f"{source.ctype(made.dtype)}, {source.ctype(made.weight)}, {tile.vector}"
    kernel = source.kernel("norm/groups_backward.cu", f"rows_of_planes<{types}>")
    numbers = (made.count, made.inner, share, made.groups, tile.rows, lanes, over)
    partial = made.extra(0) if wanted else None
    # Counters of groups join the sums of weights, where a launch for them would be most of it.
    joined = wanted and tile.rows == 1 and shape[0] <= model.JOINED_BATCH
    joined = joined and made.groups <= COUNTERS
    weights = (made.output(1), made.output(2), Counters()) if joined else (None, None, None)
    args = (*made.inputs, partial, made.output(0), *weights, *numbers)
    step = Step(kernel, (cdiv(made.count, tile.rows),), (BLOCK,), args, tile.memory, early=True)
    if joined:
        return made.plan(step, scratch=(Buffer((2, *shape), torch.float32),))
    return _summed(made, shape, wanted, (step,))


def _planes(made: RowJob, shape: tuple[int, ...], wanted: bool) -> Plan:
    batch, channels = shape
    inner, planes, share = made.inner // made.vector, batch * channels, channels // made.groups
    threads = BLOCK if inner > model.PLANE_VECTORS else min(32, 1 << (inner - 1).bit_length())
    dy, x, w, mean, rstd = made.inputs
    partial, name = made.extra(0), "norm/planes_backward.cu"
    ctype, of_weights = source.ctype(made.dtype), source.ctype(made.weight)
    first = source.kernel(name, f"plane_sums<{ctype}, {made.vector}, {threads}>")
    second = source.kernel(name, f"gradient<{ctype}, {of_weights}, {made.vector}>")
    parts = max(parts_of(made), 1)
    each = cdiv(share * inner, parts)
    steps = (
        Step(first, (cdiv(planes, BLOCK // threads),), (BLOCK,),
             (dy, x, mean, rstd, partial, planes, inner, share), early=True),
        Step(second, (made.count * parts,), (BLOCK,),
             (dy, x, w, mean, rstd, partial, made.output(0), planes, inner, share, made.groups,
              parts, each), early=True),
    )  # fmt: skip
    return _summed(made, shape, wanted, steps, always=True)


def _summed(
    made: RowJob,
    shape: tuple[int, ...],
    wanted: bool,
    steps: tuple[Step, ...],
    always: bool = False,
) -> Plan:
    """Add the sums of planes over the batch; `always`: allocate their buffer if not wanted, too."""
    scratch = [Buffer((2, *shape), torch.float32)]
    if not wanted:
        return made.plan(*steps, scratch=tuple(scratch) if always else ())

    def extra(buffer: Buffer) -> Pointer:
        scratch.append(buffer)
        return made.extra(len(scratch) - 1)

    added = weight_sums(made, made.extra(0), (shape[0], shape[1]), extra)
    return made.plan(*steps, *added, scratch=tuple(scratch))


def weight_sums(
    made: RowJob, partial: Pointer, shape: tuple[int, int], extra: Callable[[Buffer], Pointer]
) -> tuple[Step, ...]:
    """Add partial[2][rows][channels] over the rows: the gradients of weight and bias."""
    rows, channels = shape
    tiles, blocks, steps = cdiv(channels, 32), rows, []
    parts = min(cdiv(rows, model.BATCH_PER_BLOCK), cdiv(4 * made.request.target.sms, 2 * tiles))
    if parts > 1:  # first over parts of the rows
        kernel = source.kernel("norm/rows_backward.cu", "sum_partials<float>")
        joined = extra(Buffer((2, parts, channels), torch.float32))
        more = Pointer(joined.number, 4 * parts * channels)
        args = (partial, joined, more, rows, channels, tiles, cdiv(rows, parts))
        steps.append(Step(kernel, (2 * tiles, parts), (BLOCK,), args, early=True))
        partial, blocks = joined, parts
    kernel = source.kernel("norm/rows_backward.cu", f"sum_partials<{source.ctype(made.weight)}>")
    last = (partial, made.output(1), made.output(2), blocks, channels, tiles, blocks)
    return (*steps, Step(kernel, (2 * tiles,), (BLOCK,), last, early=True))


# ---- definitions -------------------------------------------------------------------------------
def check(x: Any, num_groups: int, weight: Any, bias: Any, eps: float) -> None:
    check_dtype("group_norm", x)
    if x.dim() < 2 or num_groups < 1 or x.shape[1] % num_groups:
        raise ArgumentError(
            "weft.ops.group_norm: 'num_groups' must divide the channels",
            got=f"{num_groups} groups of input of shape {list(x.shape)}",
            allowed="a divisor of dimension 1",
        )
    size = math.prod(x.shape[2:]) * (x.shape[1] // num_groups)
    if x.shape[0] * size == 1:
        raise ArgumentError(
            "weft.ops.group_norm: more than one value per group is needed",
            got=f"{num_groups} groups of input of shape {list(x.shape)}",
        )
    if size > LONGEST:
        raise ArgumentError(
            "weft.ops.group_norm: a group has too many elements",
            got=str(size),
            allowed=f"at most {LONGEST}",
        )
    check_weights("group_norm", x, (x.shape[1],), weight=weight, bias=bias)


def fake(saved: bool, x: Any, num_groups: int, *rest: Any) -> Any:
    shape = (x.shape[0], num_groups)
    statistics = [x.new_empty(shape, dtype=torch.float32) for _ in range(2 * saved)]
    result = like(x, num_groups)
    return (result, *statistics) if saved else result


def like(x: Any, num_groups: int) -> Any:
    """An empty result for x."""
    return result_like(x) if groups_last.stays_last(x, num_groups) else x.new_empty(x.shape)


def _setup(saved: bool, ctx: Any, inputs: Any, output: Any) -> None:
    """Keep the input, the weight, and the statistics if the op returns them."""
    x, ctx.groups, weight, bias, ctx.eps = inputs
    statistics = output[1:] if saved else ()
    ctx.mark_non_differentiable(*statistics)
    ctx.set_materialize_grads(False)
    ctx.biased = bias is not None
    ctx.save_for_backward(x, weight, *statistics)


def _gradients(ctx: Any, dy: Any, *_: Any) -> Any:
    x, weight, *statistics = ctx.saved_tensors
    if not statistics:
        _, *statistics = library.call("group_norm_forward")(x.detach(), ctx.groups, eps=ctx.eps)
    wanted = any(ctx.needs_input_grad[2:4])
    backward = library.call("group_norm_backward")
    # torch.autograd.grad accepts gradients of any dtype.
    dx, dw, db = backward(dy.to(x.dtype), x, weight, *statistics, ctx.groups, wanted)
    sums = (dw if weight is not None and wanted else None, db if ctx.biased and wanted else None)
    return dx, None, *sums, None


def _fake_backward(dy: Any, x: Any, weight: Any, *rest: Any) -> Any:
    dtype = x.dtype if weight is None else weight.dtype
    shape = x.shape[1:2] if rest[-1] else (0,)
    return like(x, rest[-2]), *(x.new_empty(shape, dtype=dtype) for _ in range(2))


def _setup_second(ctx: Any, inputs: Any, output: Any) -> None:
    *tensors, ctx.groups, _ = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*tensors)


def _second(ctx: Any, *grads: Any) -> Any:
    """Second derivatives, by torch: the first ones written out and differentiated."""
    dy, x, weight, _, rstd = ctx.saved_tensors
    inputs = [t for t in (dy, x, weight) if t is not None]
    found = derive(functools.partial(_written_out, ctx.groups, rstd), inputs, grads)
    return (*found, *[None] * (3 - len(inputs)), None, None, None, None)


def _written_out(groups: int, rstd: Any, dy: Any, x: Any, weight: Any = None) -> tuple[Any, ...]:
    shape = (x.shape[0], groups, -1)
    rows = x.float().reshape(shape)
    centred = rows - rows.mean(2, keepdim=True)
    squares = centred.square().mean(2, keepdim=True)
    # rstd is 1 / sqrt(squares + eps), with an eps that is not known here.
    scale = (squares + (rstd.unsqueeze(2) ** -2 - squares.detach())).rsqrt()
    z, g = centred * scale, dy.float()
    product = g * z.reshape(x.shape)
    if weight is not None:
        g = g * weight.float().view(1, -1, *[1] * (x.dim() - 2))
    g = g.reshape(shape)
    dx = scale * (g - g.mean(2, keepdim=True) - z * (g * z).mean(2, keepdim=True))
    dims = (0, *range(2, x.dim()))
    dtype = x.dtype if weight is None else weight.dtype
    sums = (product.sum(dims).to(dtype), dy.float().sum(dims).to(dtype))
    return dx.reshape(x.shape).to(x.dtype), *sums


def _definition(saved: bool) -> Definition:
    returned = "(Tensor, Tensor, Tensor)" if saved else "Tensor"
    return Definition(
        name="group_norm_forward" if saved else "group_norm",
        schema="(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None,"
        f" float eps=1e-05) -> {returned}",
        doc="Group norm, as torch.nn.functional.group_norm.",
        fake=functools.partial(fake, saved),
        candidates=functools.partial(forward, saved),
        check=check,
        setup=functools.partial(_setup, saved),
        backward=_gradients,
        redirect=None if saved else saving("group_norm", 1),
        public=not saved,
    )


DEFINITIONS = (
    _definition(False),
    _definition(True),
    Definition(
        name="group_norm_backward",
        schema="(Tensor dy, Tensor x, Tensor? weight, Tensor mean, Tensor rstd, int num_groups,"
        " bool weights) -> (Tensor, Tensor, Tensor)",
        doc="The gradients of group_norm's input and weights.",
        fake=_fake_backward,
        candidates=_backward,
        setup=_setup_second,
        backward=_second,
        public=False,
    ),
)
