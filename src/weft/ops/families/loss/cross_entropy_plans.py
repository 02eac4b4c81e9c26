"""Plan cross_entropy: rows, columns and probabilities of classes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.cluster_rows import ClusterRows, cluster_of
from weft.ops.core.plan import Argument, Buffer, Layout, Plan, Step
from weft.ops.core.rows import BLOCK, View, group, packed_bytes, parts_of, view_of
from weft.ops.families.elementwise.copies import contiguous
from weft.ops.families.loss import model
from weft.ops.families.loss.classes import ClassificationCall, call_of, label_shape
from weft.ops.families.loss.few_rows import few_rows, few_rows_of
from weft.ops.families.loss.structs import STRUCTS, Tiles

FILE = "loss/cross_entropy.cu"


# ---- candidates --------------------------------------------------------------------------------
def candidates(loss: bool, gradient: bool, first: int, request: Request) -> list[Candidate]:
    """The candidates of the loss, of its gradient, or of both; `first` is the input's number."""
    x = request.inputs[first]
    assert x is not None
    labels, none = label_shape(x), request.options["reduction"] == "none"
    outputs = [Buffer(labels if none else (), x.dtype)] if loss else []
    outputs += [Buffer(x.shape, x.dtype)] if gradient else []
    make = functools.partial(
        call_of, request, FILE, tuple(outputs), first=first, loss=loss, gradient=gradient
    )
    if x.numel == 0 and (none or not loss):
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), tuple(outputs)))]
    call = make()
    moved = x.numel * x.itemsize
    target = request.inputs[first + 1]
    if target is not None and target.dtype.is_floating_point:
        return _of_probabilities(call, make, moved)
    return (_of_columns if call.view.inner > 1 else _of_rows)(call, make, moved)


def _of_rows(
    call: ClassificationCall, make: Callable[[], ClassificationCall], moved: int
) -> list[Candidate]:
    """Candidates for logits whose classes are contiguous: on chip, or in two passes."""
    v, gpu = call.view, call.tensors.request.target
    chunks = max(1, cdiv(v.n, v.vector) + (v.n % v.vector > 0))
    once = moved * (1 + call.modes[1])
    parts = parts_of(v, chunks, gpu.sms) if v.outer else 1
    gradient = call.modes[1]
    time = call.tensors.cost + model.stream_time(gpu, once + moved * gradient, launches=2)
    candidates = [
        Candidate("long rows", time, f"{parts} blocks per row, two passes",
                  lambda: _long(make(), parts, chunks))
    ]  # fmt: skip
    if (by := cluster_of(v, chunks, call.itemsize, gpu)) is not None:
        time = call.tensors.cost + gpu.launch + model.JOIN_TIME + by.time(once)
        build = functools.partial(_cluster_rows, make, by)
        candidates.append(Candidate("rows in clusters", time, by.why, build))
    threads, registers, shared = group(chunks, model.REGISTER_VECTORS)
    if shared <= model.SHARED_VECTORS:
        time = call.tensors.cost + model.row_time(gpu, once, v.outer, threads, gradient)
        why = f"{threads} threads per row, {registers} vectors of {v.vector} in registers each"
        build = functools.partial(_rows, make, threads, registers, shared)
        candidates.insert(0, Candidate("rows", time, why, build))
    if (few := few_rows_of(call, chunks)) is not None:
        time = call.tensors.cost + model.few_rows_time(gpu, once, few.blocks)
        build = functools.partial(few_rows, make, few)
        candidates.insert(0, Candidate("few rows", time, few.why, build))
    return candidates


def _of_columns(
    call: ClassificationCall, make: Callable[[], ClassificationCall], moved: int
) -> list[Candidate]:
    """Candidates for classes that are not contiguous: in place, or transposed into rows."""
    v, gpu, gradient = call.view, call.tensors.request.target, call.modes[1]
    by = _tiles(call)
    time = model.column_time(gpu, moved, v.n, by.deep, by.count(v), gradient) + call.tensors.cost
    why = "the classes are not contiguous; they are read twice for a gradient"
    columns = Candidate("columns", time, why, lambda: _columns(make()))
    if v.n <= model.THREAD_CLASSES:
        read = moved * (1 + gradient) + call.count * call.label_size
        time = call.tensors.cost + model.stream_time(gpu, read)
        why = f"one thread for each label, {_at_once(call)} labels at a time"
        return [
            columns,
            Candidate("thread per label", time, why, lambda: _thread_per_label(make())),
        ]
    if v.n < model.TRANSPOSED_CLASSES:
        return [columns]
    rows = _of_rows(_transposed(make()), lambda: _transposed(make()), moved)
    return [columns, *(replace(c, name=f"transposed, {c.name}") for c in rows)]


def _transposed(call: ClassificationCall) -> ClassificationCall:
    """The call with classes that are contiguous: a copy, and a gradient that is copied back."""
    v, tensors = call.view, call.tensors
    dtype = call.tensors.outputs[-1].dtype
    shape = (v.outer, v.inner, v.n)
    planes = Layout(dtype, shape, (v.n * v.inner, 1, v.inner), v.vector * call.itemsize)
    rows = tensors.buffer(Buffer(shape, dtype))
    copy = contiguous(planes, call.x, rows, tensors.request.target)
    tensors.steps += copy.steps
    tensors.cost += copy.cost
    view = view_of(Layout(dtype, (v.outer * v.inner, v.n), (v.n, 1), 16), 1)
    assert view is not None
    if call.gradient is None:
        return replace(call, view=view, x=rows)
    gradient = tensors.buffer(Buffer(shape, dtype))
    planes = Layout(dtype, (v.outer, v.n, v.inner), (v.n * v.inner, 1, v.n), 16)
    back = contiguous(planes, gradient, call.gradient, tensors.request.target)
    tensors.after += back.steps
    tensors.cost += back.cost
    return replace(call, view=view, x=rows, gradient=gradient)


def _of_probabilities(
    call: ClassificationCall, make: Callable[[], ClassificationCall], moved: int
) -> list[Candidate]:
    gpu = call.tensors.request.target
    read = moved * (2 + 3 * call.modes[1])
    time = call.tensors.cost + model.stream_time(gpu, read)
    why = "the target has probabilities; both are read twice for a gradient"
    return [Candidate("probabilities", time, why, lambda: _probabilities(make()))]


# ---- plans -------------------------------------------------------------------------------------
def _rows(
    make: Callable[[], ClassificationCall], threads: int, registers: int, shared: int
) -> Plan:
    call = make()
    v, sms = call.view, call.tensors.request.target.sms
    block = 128 if threads <= 32 else threads
    groups = max(1, cdiv(v.outer, block // threads))
    blocks = min(groups, model.BLOCKS_PER_SM * sms if threads <= 32 else 65536)
    shape = (threads, registers, shared)
    kernel = call.kernel("rows", *call.vectors, *shape, *call.modes, call.smooth)
    memory = shared * threads * packed_bytes(v.vector, call.itemsize)
    # Blocks that have one long row each leave the sum of the losses to a launch of its own: each
    # would wait for its own part of the sum before the SM has its next row.
    summed = call.loss is not None and call.reduction > 0
    apart = threads >= model.WIDE_BLOCK and v.outer > sms and summed
    loss, partials, gradient, counter = call.results(v.outer if apart else blocks)
    counter = None if apart else counter
    args = (call.x, *call.labels(), loss, partials, gradient, counter, call.problem)
    steps = [Step(kernel, (blocks,), (block,), args, memory, early=True)]
    if apart:
        steps.append(_join(call, loss, partials))
    return call.tensors.plan(*steps)


def _join(call: ClassificationCall, loss: Argument, partials: Argument) -> Step:
    """The launch that sums the losses of all rows."""
    kernel = source.kernel(FILE, f"join_rows<{call.types[0]}>", **STRUCTS)
    return Step(kernel, (1,), (BLOCK,), (partials, loss, call.problem), early=True)


def _cluster_rows(make: Callable[[], ClassificationCall], by: ClusterRows) -> Plan:
    call = replace(make(), file="loss/cluster.cu")
    v = call.view
    kernel = call.kernel("cluster_rows", *call.vectors, by.threads, *call.modes, call.smooth)
    # The losses of all rows are summed even where there is one row.
    loss, partials, gradient, _ = call.results(max(2, v.outer))
    args = (call.x, *call.labels(), loss, partials, gradient, by.each, call.problem)
    grid, cluster = (v.outer * by.blocks,), (by.blocks, 1, 1)
    steps = [Step(kernel, grid, (by.threads,), args, by.shared, cluster, early=True)]
    if call.loss is not None and call.reduction > 0:
        steps.append(_join(call, loss, partials))
    return call.tensors.plan(*steps)


def _long(call: ClassificationCall, parts: int, chunks: int) -> Plan:
    v, rest = call.view, (parts, cdiv(chunks, parts))
    found = call.tensors.buffer(Buffer((v.outer * parts, 4), torch.float32))
    first = call.kernel("parts_of_rows", *call.vectors, call.smooth)
    second = call.kernel("finish_rows", *call.vectors, *call.modes, call.smooth)
    blocks = v.outer * (parts if call.modes[1] else 1)
    labels = call.labels()
    args = (call.x, *labels, *call.results(blocks), found, *rest, call.problem)
    steps = (
        Step(
            first, (v.outer * parts,), (BLOCK,), (call.x, *labels[:2], found, *rest, call.problem)
        ),
        Step(second, (blocks,), (BLOCK,), args),
    )
    return call.tensors.plan(*steps)


class _ColumnTiles(NamedTuple):
    """Threads for classes that are not contiguous; see `Tiles`."""

    width: int
    deep: int
    planes: int

    def count(self, v: View) -> int:
        return cdiv(v.outer, self.planes) * cdiv(v.inner, self.width)

    def packed(self, v: View) -> bytes:
        return Tiles(*self, cdiv(v.inner, self.width), self.count(v)).pack()


def _tiles(call: ClassificationCall) -> _ColumnTiles:
    v, sms = call.view, call.tensors.request.target.sms
    width = min(v.inner, BLOCK)
    while width > 32 and v.outer * cdiv(v.inner, width) < 4 * sms:
        width //= 2
    if width < v.inner:
        return _ColumnTiles(width, BLOCK // width, 1)
    # Threads of a neighbour read whole sectors together. More of them are worth the time to join
    # what each has found for long columns, or where the GPU has few threads otherwise.
    deep = 1
    while 2 * deep * width <= BLOCK and 2 * deep <= v.n and (
        deep * width * call.itemsize < model.SECTOR or 8 * deep * deep < v.n
        or call.count * deep < 512 * sms
    ):  # fmt: skip
        deep *= 2
    return _ColumnTiles(width, deep, BLOCK // (width * deep))


def _blocks(call: ClassificationCall, by: _ColumnTiles) -> int:
    return max(1, min(by.count(call.view), model.BLOCKS_PER_SM * call.tensors.request.target.sms))


def _probabilities(call: ClassificationCall) -> Plan:
    by = _tiles(call)
    blocks = _blocks(call, by)
    words = (call.types[0], *(str(m).lower() for m in call.modes))
    kernel = source.kernel(FILE, f"probabilities<{', '.join(words)}>", **STRUCTS)
    args = (call.x, call.target, call.weight, call.upstream, *call.results(blocks),
            by.packed(call.view), call.problem)  # fmt: skip
    return call.tensors.plan(Step(kernel, (blocks,), (BLOCK,), args, early=True))


def _columns(call: ClassificationCall) -> Plan:
    by = _tiles(call)
    blocks = _blocks(call, by)
    kernel = call.kernel("columns", *call.modes, call.smooth)
    args = (call.x, *call.labels(), *call.results(blocks), by.packed(call.view), call.problem)
    return call.tensors.plan(Step(kernel, (blocks,), (BLOCK,), args, early=True))


def _at_once(call: ClassificationCall) -> int:
    """Labels of a thread at a time; see the kernel."""
    return 4 if call.view.n <= 2 else 2


def _thread_per_label(call: ClassificationCall) -> Plan:
    blocks = cdiv(call.count, BLOCK * _at_once(call))
    blocks = max(1, min(blocks, model.BLOCKS_PER_SM * call.tensors.request.target.sms))
    words = (*call.types, *(str(p).lower() for p in (call.view.n, *call.modes, call.smooth)))
    name = f"thread_per_label<{', '.join(words)}>"
    kernel = source.kernel("loss/thread_per_label.cu", name, **STRUCTS)
    args = (call.x, *call.labels(), *call.results(blocks), call.problem)
    return call.tensors.plan(Step(kernel, (blocks,), (BLOCK,), args, early=True))
