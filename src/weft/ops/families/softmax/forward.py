"""softmax and log_softmax along any dimension, forward and backward."""

from __future__ import annotations

import functools
import math
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.kernels import cdiv
from weft.ops.core import library, source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.plan import Buffer, Layout, Plan, Pointer, Step
from weft.ops.core.rows import BLOCK, View, group, packed_bytes, parts_of, view_of
from weft.ops.core.target import Target
from weft.ops.families.elementwise.copies import after_copy, contiguous

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
SM_BANDWIDTH = 50e9
"""Bytes that one SM reads and writes per second when others do little."""
TURNS, ROUND = 4, 0.5e-6
"""Loads of a column that a thread has in flight, and their latency in seconds."""
SHORT = 8
"""The most elements of a column that a thread keeps in registers."""
TWICE = 512
"""Vectors of a row above which it may be read twice."""
STAGED, STAGE, MEMORY = 32768, 8192, 96 * 1024
"""The most elements of a row in shared memory; bytes of a block's rows, wanted and at the most."""
WIDE = 1024
"""Threads of a block that has one such row."""
COLUMN = 0.3e-6
"""Seconds in which a group of threads finds the maximum and the sum of a row in shared memory."""
RAGGED, LONG = 1.3, 1.4
"""The time of rows that are no whole vectors, and of more than 1 KiB in shared memory."""
HELD = 8
"""The most 16-byte vectors that a thread keeps in registers."""


# ---- candidates --------------------------------------------------------------------------------
def _forward(log: bool, request: Request) -> list[Candidate]:
    x, dim = request.first, request.options["dim"]
    out = Buffer(x.shape, x.dtype)
    if x.numel == 0:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]
    view = view_of(x, dim)
    if view is not None:
        return _of_view(log, request, view, out, Pointer(0), ())
    dense = Layout(x.dtype, x.shape, out.steps, 16)
    scratch = Buffer(x.shape, x.dtype)
    copied = view_of(dense, dim)
    assert copied is not None
    copy = contiguous(x, Pointer(0), Pointer(2), request.target)
    candidates = _of_view(log, request, copied, out, Pointer(2), copy.steps)
    return after_copy(copy, candidates, scratch)


def _of_view(
    log: bool, request: Request, view: View, out: Buffer, x: Pointer, before: tuple[Step, ...]
) -> list[Candidate]:
    gpu, size = request.target, out.dtype.itemsize
    moved = 2 * view.outer * view.n * view.inner * size
    if view.n == 1:
        build = functools.partial(_single, log, view, out, x, before)
        return [Candidate("single", gpu.launch + moved / gpu.bandwidth, "n is 1", build)]
    if view.inner > 1:
        return _of_columns(log, request, view, out, x, before)
    whole = view.vector > 1 and view.n % view.vector == 0
    candidates = [] if whole else _staged(log, request, view, out, x, before)
    chunks = cdiv(view.n, view.vector) + (view.n % view.vector > 0)
    # One SM's rate falls with the size of its loads.
    rate = SM_BANDWIDTH * view.vector * size / 16
    for most in (HELD, HELD // 2):
        threads, held, shared = group(chunks, most)
        if shared > HELD + 4 or (most < HELD and (shared or chunks <= 32 * HELD)):
            continue
        row = 2 * view.n * size / rate * cdiv(view.outer, gpu.sms * max(1, 1024 // threads))
        time = gpu.launch + max((1.0 if whole else RAGGED) * moved / gpu.bandwidth, row)
        why = f"{threads} threads per row, {held} vectors of {view.vector} in registers each"
        build = functools.partial(_rows, log, view, out, x, before, threads, held, shared)
        name = "rows" if most == HELD else f"rows, {most} vectors per thread"
        candidates.append(Candidate(name, time, why, build))
    if chunks > TWICE:
        resident = min(view.outer, 2 * gpu.sms) * view.n * size
        near = 1.1 if resident < 0.8 * gpu.l2 else 1.5
        row = 3 * view.n * size / rate * cdiv(view.outer, 2 * gpu.sms)
        time = gpu.launch + max(near * moved / gpu.bandwidth, row)
        build = functools.partial(_rows_twice, log, view, out, x, before)
        candidates.append(Candidate("rows, twice", time, "one block per row reads it twice", build))
    parts = parts_of(view, chunks, gpu.sms)
    time = 2 * gpu.launch + (1.1 if moved < gpu.l2 else 1.5) * moved / gpu.bandwidth
    why = f"{parts} blocks per row, two passes"
    build = functools.partial(_long, log, view, out, x, before, parts, chunks)
    return [*candidates, Candidate("long rows", time, why, build)]


def _staged(
    log: bool, request: Request, view: View, out: Buffer, x: Pointer, before: tuple[Step, ...]
) -> list[Candidate]:
    """A candidate for planes that are no whole vectors: a block has several in shared memory."""
    gpu, size = request.target, out.dtype.itemsize
    plane = view.n * view.inner * size
    # Planes that are whole vectors together: other blocks begin behind them.
    step = 16 // math.gcd(plane, 16) if view.outer > 1 else 1
    dense = view.inner > 1 or view.stride == view.n
    room = min(MEMORY, gpu.shared_per_block - 1024)
    if not dense or view.n > STAGED or step * plane > room:
        return []
    vector, aligned = 16 // size, 16 if before else request.first.aligned
    while aligned % (vector * size):
        vector //= 2
    threads = 1
    while threads < 32 and threads * 8 < view.n:
        threads *= 2
    if view.n > 32 * threads:
        threads = BLOCK if view.n <= 32 * BLOCK else WIDE
    held = next(h for h in (2, 4, 8, 12, 16, 24, 32) if h * threads >= view.n)
    block = max(BLOCK, threads)
    least = cdiv(block, threads * view.inner)
    planes = min(max(STAGE // plane, least), cdiv(view.outer, 4 * gpu.sms), room // plane)
    planes = min(cdiv(max(1, planes), step) * step, room // plane // step * step)
    moved = 2 * view.outer * plane
    # Columns of a block one after the other, and elements of a column that meet in banks.
    waves = cdiv(view.outer, planes * gpu.sms * (gpu.threads_per_sm // block))
    turns = cdiv(planes * view.inner, block // threads) * waves
    meet = math.gcd(view.inner * size // 4, 32) if view.inner * size % 4 == 0 else 1
    loads = cdiv(planes * plane, block * vector * size * TURNS) * ROUND
    busy = turns * (COLUMN + held * min(meet, threads) * 4e-9) + loads * waves
    # Longer rows are faster in registers, unless they are read element by element.
    slow = LONG if view.inner == 1 and plane > 1024 and view.vector > 1 else 1.0
    time = gpu.launch + max(slow * moved / gpu.bandwidth, busy)
    why = f"{planes} planes per block through shared memory, {threads} threads for a column"
    flags = f"{source.ctype(out.dtype)}, {vector}, {threads}, {held}, {str(log).lower()}"

    def build() -> Plan:
        kernel = source.kernel("softmax/softmax.cu", f"staged<{flags}>")
        args = (x, Pointer(1), view.outer, view.n, view.inner, planes)
        grid, memory = (cdiv(view.outer, planes),), planes * plane
        return Plan((*before, Step(kernel, grid, (block,), args, memory)), (out,))

    return [Candidate("staged rows" if view.inner == 1 else "staged columns", time, why, build)]


# ---- plans -------------------------------------------------------------------------------------
def _vectors(view: View, out: Buffer) -> str:
    """Template arguments of the kernels for rows: the last one is true for whole vectors."""
    even = view.vector > 1 and view.n % view.vector == 0
    return f"{source.ctype(out.dtype)}, {view.vector}, {str(even).lower()}"


def _rows(
    log: bool, view: View, out: Buffer, x: Pointer, before: tuple[Step, ...],
    threads: int, held: int, shared: int,
) -> Plan:  # fmt: skip
    flags = f"{threads}, {held}, {shared}, {str(log).lower()}"
    kernel = source.kernel("softmax/softmax.cu", f"rows<{_vectors(view, out)}, {flags}>")
    block = 128 if threads <= 32 else threads
    grid = (cdiv(view.outer, block // threads),)
    memory = shared * threads * packed_bytes(view.vector, out.dtype.itemsize)
    args = (x, Pointer(1), view.outer, view.n, view.stride)
    return Plan((*before, Step(kernel, grid, (block,), args, memory)), (out,))


def _rows_twice(log: bool, view: View, out: Buffer, x: Pointer, before: tuple[Step, ...]) -> Plan:
    name = f"rows_twice<{_vectors(view, out)}, {str(log).lower()}>"
    args = (x, Pointer(1), view.n, view.stride)
    step = Step(source.kernel("softmax/softmax.cu", name), (view.outer,), (512,), args)
    return Plan((*before, step), (out,))


def _long(
    log: bool, view: View, out: Buffer, x: Pointer, before: tuple[Step, ...],
    parts: int, chunks: int,
) -> Plan:  # fmt: skip
    each = cdiv(chunks, parts)
    scratch = Buffer((view.outer * parts, 2), torch.float32)
    number = 3 if x.number == 2 else 2
    one = source.kernel("softmax/softmax.cu", f"parts_of_rows<{_vectors(view, out)}>")
    two = source.kernel(
        "softmax/softmax.cu", f"finish_rows<{_vectors(view, out)}, {str(log).lower()}>"
    )
    grid, rest = (view.outer * parts,), (view.n, view.stride, parts, each)
    steps = (
        Step(one, grid, (BLOCK,), (x, Pointer(number), *rest)),
        Step(two, grid, (BLOCK,), (x, Pointer(1), Pointer(number), *rest)),
    )
    return Plan((*before, *steps), (out,), (scratch,))


def _of_columns(
    log: bool, request: Request, view: View, out: Buffer, x: Pointer, before: tuple[Step, ...]
) -> list[Candidate]:
    """Candidates for a dimension that is not the last: one block per column, or several."""
    gpu, size = request.target, out.dtype.itemsize
    moved = 2 * view.outer * view.n * view.inner * size
    if view.n <= SHORT:
        vector = view.vector  # 1 where the tensor is not aligned
        while view.inner % vector:
            vector //= 2
        build = functools.partial(_short_columns, log, view, out, x, before, vector)
        why = f"a thread holds {vector} columns of {view.n}"
        return [Candidate("short columns", gpu.launch + moved / gpu.bandwidth, why, build)]
    width, tiles, parts, busy = columns_of(view, size, gpu)
    near = 1.2 if moved < gpu.l2 else 1.5
    candidates = [
        Candidate("columns", gpu.launch + max(near * moved / gpu.bandwidth, busy),
                  f"{tiles} blocks, {width} columns each; n is read twice",
                  functools.partial(_columns, log, view, out, x, before, width))
    ]  # fmt: skip
    if view.inner < 32:
        candidates += _staged(log, request, view, out, x, before)
    if parts > 1:
        why = f"{parts} blocks per column, two passes"
        build = functools.partial(_long_columns, log, view, out, x, before, width, parts)
        time = 2 * gpu.launch + near * moved / gpu.bandwidth
        candidates.append(Candidate("long columns", time, why, build))
    return candidates


def _short_columns(
    log: bool, view: View, out: Buffer, x: Pointer, before: tuple[Step, ...], vector: int
) -> Plan:
    held = 1 << (view.n - 1).bit_length()
    name = f"short_columns<{source.ctype(out.dtype)}, {vector}, {held}, {str(log).lower()}>"
    groups = view.outer * view.inner // vector
    args = (x, Pointer(1), view.n, view.inner, groups)
    step = Step(source.kernel("softmax/softmax.cu", name), (cdiv(groups, BLOCK),), (BLOCK,), args)
    return Plan((*before, step), (out,))


def columns_of(view: View, size: int, gpu: Target) -> tuple[int, int, int, float]:
    """(columns per block, blocks, blocks per column, seconds of the busiest SM)."""
    width = min(view.inner, BLOCK)
    while width > 32 and view.outer * cdiv(view.inner, width) < 4 * gpu.sms:
        width //= 2
    tiles = view.outer * cdiv(view.inner, width)
    deep = BLOCK // width
    moving = 2 * view.n * width * size / SM_BANDWIDTH
    waiting = 2 * cdiv(view.n, TURNS * deep) * ROUND
    busy = max(moving, waiting) * cdiv(tiles, 8 * gpu.sms)
    return width, tiles, min(cdiv(8 * gpu.sms, tiles), cdiv(view.n, 4 * (BLOCK // width))), busy


def _columns(
    log: bool, view: View, out: Buffer, x: Pointer, before: tuple[Step, ...], width: int
) -> Plan:
    tiles = cdiv(view.inner, width)
    name = f"columns<{source.ctype(out.dtype)}, {str(log).lower()}>"
    args = (x, Pointer(1), view.n, view.inner, width, tiles)
    step = Step(source.kernel("softmax/softmax.cu", name), (view.outer * tiles,), (BLOCK,), args)
    return Plan((*before, step), (out,))


def _long_columns(
    log: bool, view: View, out: Buffer, x: Pointer, before: tuple[Step, ...], width: int, parts: int
) -> Plan:
    tiles, each = cdiv(view.inner, width), cdiv(view.n, parts)
    scratch = Buffer((view.outer * parts * view.inner, 2), torch.float32)
    partials = Pointer(3 if x.number == 2 else 2)
    ctype = source.ctype(out.dtype)
    one = source.kernel("softmax/softmax.cu", f"parts_of_columns<{ctype}>")
    two = source.kernel("softmax/softmax.cu", f"finish_columns<{ctype}, {str(log).lower()}>")
    grid, rest = (view.outer * tiles * parts,), (view.n, view.inner, width, tiles, parts, each)
    steps = (
        Step(one, grid, (BLOCK,), (x, partials, *rest)),
        Step(two, grid, (BLOCK,), (x, Pointer(1), partials, *rest)),
    )
    return Plan((*before, *steps), (out,), (scratch,))


def _single(log: bool, view: View, out: Buffer, x: Pointer, before: tuple[Step, ...]) -> Plan:
    name = f"single<{source.ctype(out.dtype)}, {str(log).lower()}>"
    n = view.outer * view.inner
    step = Step(
        source.kernel("softmax/softmax.cu", name), (cdiv(n, BLOCK),), (BLOCK,), (x, Pointer(1), n)
    )
    return Plan((*before, step), (out,))


# ---- definitions -------------------------------------------------------------------------------
def _check(name: str, x: Any, dim: int) -> None:
    if x.dtype not in DTYPES:
        raise ArgumentError(
            f"weft.ops.{name}: 'x' has a dtype that no kernel takes",
            got=str(x.dtype), allowed="float32, float16, bfloat16", next="convert it: x.float()",
        )  # fmt: skip
    if not -max(x.dim(), 1) <= dim < max(x.dim(), 1):
        raise ArgumentError(
            f"weft.ops.{name}: there is no such dimension",
            got=f"dim {dim} of {x.dim()} dimensions",
            allowed=f"{-max(x.dim(), 1)} to {max(x.dim(), 1) - 1}",
        )


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(output)
    ctx.dim = inputs[1]


def _backward(name: str, ctx: Any, grad: Any) -> Any:
    (y,) = ctx.saved_tensors
    return library.call(f"{name}_backward")(grad, y, ctx.dim), None


def batch_dim(x: Any, dim: int) -> int:
    """The index of `dim` in a tensor with one more leading dimension."""
    return int(dim % (x.dim() - 1) + 1)


def _batched(name: str, info: Any, in_dims: Any, x: Any, dim: int = -1) -> Any:
    """A batch is one more dimension in front of the others."""
    x = x.movedim(in_dims[0], 0)
    if x.dim() == 1:  # numbers: softmax of one element each
        return library.call(name)(x.unsqueeze(1), 1).squeeze(1), 0
    return library.call(name)(x, batch_dim(x, dim)), 0


def _definition(name: str, log: bool) -> Definition:
    return Definition(
        name=name,
        schema="(Tensor x, int dim=-1) -> Tensor",
        doc=f"{'The logarithm of softmax' if log else 'Softmax'} of x along a dimension.",
        fake=lambda x, dim=-1: x.new_empty(x.shape),
        candidates=functools.partial(_forward, log),
        check=functools.partial(_check, name),
        setup=_setup,
        backward=functools.partial(_backward, name),
        vmap=functools.partial(_batched, name),
    )


DEFINITIONS = (_definition("softmax", False), _definition("log_softmax", True))
