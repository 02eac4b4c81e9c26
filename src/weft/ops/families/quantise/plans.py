"""Plan quantise: segments in registers, or two launches for long ones that blocks share."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace

import torch

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.layouts import merged
from weft.ops.core.plan import Buffer, Layout, Plan, Pointer, Step
from weft.ops.families.elementwise.copies import CopyPlan, contiguous
from weft.ops.families.quantise import model
from weft.ops.families.quantise.structs import Segments

TYPES = {torch.int8: "signed char", torch.float8_e4m3fn: "E4m3", torch.float8_e5m2: "E5m2"}
"""Types of elements of results in C++."""
FILE = "quantise/quantise.cu"
X, Q, SCALE, FIRST_SCRATCH = range(4)
"""Numbers of the tensors."""


@dataclass(frozen=True)
class _Job:
    """The segments of x, where they lie, and what becomes of them."""

    segments: Segments
    vector: int
    types: tuple[str, str]
    x: Pointer
    outputs: tuple[Buffer, Buffer]
    copy: CopyPlan | None
    room: tuple[Buffer, ...]

    def plan(self, steps: tuple[Step, ...], scratch: tuple[Buffer, ...] = ()) -> Plan:
        before = () if self.copy is None else self.copy.steps
        return Plan((*before, *steps), self.outputs, (*self.room, *scratch))


def outputs_of(shape: tuple[int, ...], dtype: torch.dtype, group: int | None) -> tuple[Buffer, ...]:
    """The results of quantise: elements, and a scale for each group or row."""
    groups = shape[-1] // group if group else 1
    return Buffer(shape, dtype), Buffer((*shape[:-1], groups), torch.float32)


def candidates(request: Request) -> list[Candidate]:
    """Candidates of a call of quantise."""
    x, gpu = request.first, request.target
    outputs = outputs_of(x.shape, request.options["dtype"], request.options["group"])
    if not x.numel:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), outputs))]
    job = _job(request, outputs)
    s, before = job.segments, 0.0 if job.copy is None else job.copy.cost
    moved = s.count * s.n * (x.itemsize + 1)
    found = []
    lanes = model.lanes_of(s.n // job.vector)
    if lanes is not None:
        blocks, _ = blocks_of(s.count, lanes[0])
        why = f"{s.count} segments of {s.n}, {lanes[0]} threads each"
        build = functools.partial(_resident, job, lanes)
        time = model.moving_time(gpu, moved, blocks)
        found.append(Candidate("resident", before + time, why, build))
    each = cdiv(s.n, job.vector * model.BLOCK * model.PART_VECTORS)
    parts = max(1, min(each, cdiv(8 * gpu.sms, s.count)))
    time = model.moving_time(gpu, moved, parts * s.count)
    time += model.moving_time(gpu, s.count * s.n * x.itemsize, parts * s.count)
    why = f"{s.count} segments of {s.n}, {parts} blocks each"
    build = functools.partial(_two_passes, job, parts)
    return [*found, Candidate("two passes", before + time, why, build)]


def pitch_of(x: Layout) -> int | None:
    """Elements from a row to the next; None if rows are not contiguous, or lie in no such order."""
    walk = merged(x.shape[:-1], [x.strides[:-1]])
    if len(walk.sizes) > 1 or (x.strides[-1] != 1 and x.shape[-1] > 1):
        return None
    return walk.strides[0][0]


def vector_of(itemsize: int, *places: int) -> int:
    """Elements of the largest vector that all of these numbers of elements are multiples of."""
    vector = 16 // itemsize
    while any(place % vector for place in places):
        vector //= 2
    return vector


def blocks_of(count: int, lanes: int) -> tuple[int, int]:
    """(blocks, threads of each) for so many segments in registers of so many threads each."""
    if lanes > model.WARP:
        return count, lanes
    return cdiv(count, model.BLOCK // lanes), model.BLOCK


def _job(request: Request, outputs: tuple[Buffer, ...]) -> _Job:
    x, q = request.first, outputs[0]
    n, rows = x.shape[-1], math.prod(x.shape[:-1])
    group = request.options["group"] or n
    pointer, pitch, aligned, copy = Pointer(X), pitch_of(x), x.aligned, None
    room: tuple[Buffer, ...] = ()
    if pitch is None:
        pointer, pitch, aligned = Pointer(FIRST_SCRATCH), n, 16
        copy = contiguous(x, Pointer(X), pointer, request.target)
        room = (Buffer(x.shape, x.dtype),)
    places = (group, aligned // x.itemsize, *((pitch,) if rows > 1 else ()))
    vector = vector_of(x.itemsize, *places)
    segments = Segments(rows * (n // group), pitch, group, n // group, 1)
    types = source.ctype(x.dtype), TYPES[q.dtype]
    return _Job(segments, vector, types, pointer, (q, outputs[1]), copy, room)


def _resident(job: _Job, lanes: tuple[int, int]) -> Plan:
    name = source.template("resident", *job.types, job.vector, *lanes)
    kernel = source.kernel(FILE, name, **Segments.define())
    blocks, threads = blocks_of(job.segments.count, lanes[0])
    args = (job.x, Pointer(Q), Pointer(SCALE), job.segments.pack())
    return job.plan((Step(kernel, (blocks,), (threads,), args, early=True),))


def _two_passes(job: _Job, parts: int) -> Plan:
    segments = replace(job.segments, parts=parts)
    most = Pointer(FIRST_SCRATCH + len(job.room))
    blocks, struct = (parts * segments.count,), Segments.define()
    find = source.kernel(FILE, source.template("find_largest", job.types[0], job.vector), **struct)
    apply = source.kernel(FILE, source.template("apply", *job.types, job.vector), **struct)
    packed = segments.pack()
    steps = (
        Step(find, blocks, (model.BLOCK,), (job.x, most, packed), early=True),
        Step(apply, blocks, (model.BLOCK,), (job.x, most, Pointer(Q), Pointer(SCALE), packed),
             early=True),
    )  # fmt: skip
    return job.plan(steps, (Buffer((segments.count,), torch.int32, zeroed=True),))
