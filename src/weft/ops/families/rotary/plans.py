"""Plan rotary embeddings: queries and keys, or packed queries, keys and values, in one launch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.plan import Argument, Buffer, Layout, Plan, Pointer, Step
from weft.ops.families.elementwise.copies import contiguous
from weft.ops.families.rotary import model
from weft.ops.families.rotary.structs import PARTS, Rotation

THREADS = 256


@dataclass(frozen=True)
class Heads:
    """Heads in memory: their address, and strides of the batch, of heads and of positions.

    aligned  bytes that the address is a multiple of
    """

    pointer: Pointer
    count: int
    strides: tuple[int, int, int]
    aligned: int


class RotatedHeads(NamedTuple):
    """A tensor of heads and its result; `rotated` elements of each head are turned."""

    given: Heads
    made: Heads
    rotated: int


@dataclass
class Tensors:
    """The inputs of a call; adds copies of those whose heads are not contiguous."""

    request: Request
    outputs: tuple[Buffer, ...]
    steps: list[Step] = field(default_factory=list)
    scratch: list[Buffer] = field(default_factory=list)

    def dense(self, number: int) -> tuple[Pointer, Layout]:
        """An input whose last dimension is contiguous."""
        x = self.request.inputs[number]
        assert x is not None
        if x.strides[-1] == 1 or x.shape[-1] == 1:
            return Pointer(number), x
        made = Buffer(x.shape, x.dtype)
        end = Pointer(len(self.request.inputs) + len(self.outputs) + len(self.scratch))
        self.scratch.append(made)
        self.steps += contiguous(x, Pointer(number), end, self.request.target).steps
        return end, Layout(x.dtype, x.shape, made.steps, 16)

    def heads(self, number: int) -> Heads:
        """An input [batch, heads, positions, size]."""
        pointer, x = self.dense(number)
        batch, head, position, _ = x.strides
        return Heads(pointer, x.shape[1], (batch, head, position), x.aligned)

    def result(self, number: int) -> Heads:
        """An output of the same dimensions."""
        made = self.outputs[number]
        batch, head, position, _ = made.steps
        pointer = Pointer(len(self.request.inputs) + number)
        return Heads(pointer, made.shape[1], (batch, head, position), 16)

    def plan(self, *steps: Step) -> Plan:
        return Plan((*self.steps, *steps), self.outputs, tuple(self.scratch))


def packed_heads(pointer: Pointer, x: Layout, counts: Sequence[int], size: int) -> list[Heads]:
    """The heads of a tensor [batch, positions, all heads times size]."""
    found, first = [], 0
    for count in counts:
        offset = first * size * x.itemsize
        aligned = min(x.aligned, offset & -offset) if offset else x.aligned
        place = Pointer(pointer.number, pointer.offset + offset)
        found.append(Heads(place, count, (x.strides[0], size, x.strides[1]), aligned))
        first += count
    return found


# ---- candidates --------------------------------------------------------------------------------
def like(x: Layout) -> Buffer:
    """A result whose dimensions lie in memory as those of x do; elements of a head are last."""
    order = sorted(range(3), key=lambda d: -x.strides[d])
    strides, step = [0, 0, 0, 1], x.shape[3]
    for d in reversed(order):
        strides[d] = step
        step *= max(x.shape[d], 1)
    return Buffer(x.shape, x.dtype, strides=tuple(strides))


def pairs(back: bool, request: Request) -> list[Candidate]:
    """Queries and keys: (q, k, cos, sin)."""
    q, k = request.inputs[:2]
    assert q is not None and k is not None
    outputs = (like(q), like(k))

    def build() -> Plan:
        tensors = Tensors(request, outputs)
        rotated = _rotated(request)
        parts = [RotatedHeads(tensors.heads(i), tensors.result(i), rotated) for i in range(2)]
        return tensors.plan(_launch(tensors, parts, q.shape, 2, back))

    return _candidate(request, outputs, build)


def split(request: Request) -> list[Candidate]:
    """A packed tensor to queries, keys and values: (qkv, cos, sin)."""
    x = request.first
    counts = head_counts(request.options["heads"], request.options["kv_heads"])
    size = x.shape[2] // sum(counts)
    outputs = tuple(Buffer((x.shape[0], n, x.shape[1], size), x.dtype) for n in counts)

    def build() -> Plan:
        tensors = Tensors(request, outputs)
        given = packed_heads(*tensors.dense(0), counts, size)
        rotated = (_rotated(request), _rotated(request), 0)
        parts = [RotatedHeads(h, tensors.result(i), rotated[i]) for i, h in enumerate(given)]
        return tensors.plan(_launch(tensors, parts, outputs[0].shape, 1, False))

    return _candidate(request, outputs, build)


def join(request: Request) -> list[Candidate]:
    """Gradients of queries, keys and values to that of a packed tensor: (dq, dk, dv, cos, sin)."""
    layouts = [x for x in request.inputs[:3] if x is not None]
    batch, _, positions, size = layouts[0].shape
    counts = [x.shape[1] for x in layouts]
    out = Buffer((batch, positions, sum(counts) * size), layouts[0].dtype)

    def build() -> Plan:
        tensors = Tensors(request, (out,))
        dense = Layout(out.dtype, out.shape, out.steps, 16)
        made = packed_heads(Pointer(len(request.inputs)), dense, counts, size)
        rotated = (_rotated(request), _rotated(request), 0)
        parts = [RotatedHeads(tensors.heads(i), made[i], rotated[i]) for i in range(3)]
        return tensors.plan(_launch(tensors, parts, layouts[0].shape, 3, True))

    return _candidate(request, (out,), build)


def head_counts(heads: int, kv_heads: int | None) -> tuple[int, int, int]:
    """Heads of queries, keys and values."""
    others = heads if kv_heads is None else kv_heads
    return heads, others, others


def _candidate(
    request: Request, outputs: tuple[Buffer, ...], build: Callable[[], Plan]
) -> list[Candidate]:
    elements = sum(math.prod(made.shape) for made in outputs)
    if not elements:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), outputs))]
    moved = 2 * elements * outputs[0].dtype.itemsize
    time = model.stream_time(request.target, moved)
    why = f"{len(outputs)} tensors" if len(outputs) > 1 else "one tensor"
    return [Candidate("pairs", time, why, build)]


def _rotated(request: Request) -> int:
    """Elements of a head that are turned."""
    cos = request.inputs[-2]
    assert cos is not None
    return 2 * cos.shape[-1]


def _launch(
    tensors: Tensors, parts: list[RotatedHeads], shape: Sequence[int], cos: int, back: bool
) -> Step:
    """The launch for heads of a shape [batch, heads, positions, size]."""
    batch, _, positions, size = shape
    (cosines, c), (sines, s) = tensors.dense(cos), tensors.dense(cos + 1)
    dtype = tensors.outputs[0].dtype
    vector = 16 // dtype.itemsize
    strides = [n for p in parts for h in (p.given, p.made) for n in h.strides]
    aligned = [h.aligned // dtype.itemsize for p in parts for h in (p.given, p.made)]
    ends = [n for p in parts for n in (p.rotated // 2, (size - p.rotated) // 2)]
    angles = [*c.strides[:-1], c.aligned // c.itemsize, s.aligned // s.itemsize]
    while vector > 1 and any(n % vector for n in (*strides, *aligned, *ends, *angles)):
        vector //= 2
    name = source.template(
        "rotate", source.ctype(dtype), source.ctype(c.dtype), vector,
        bool(tensors.request.options["interleaved"]),
    )  # fmt: skip
    kernel = source.kernel("rotary/rotary.cu", name, **Rotation.define())
    full = [*parts, *[parts[-1]] * (PARTS - len(parts))]
    heads = [p.given.count for p in parts] + [0] * (PARTS - len(parts))
    rows = batch * sum(heads) * positions
    total = rows * (size // (2 * vector))

    def of(heads: Sequence[Heads], number: int) -> tuple[int, ...]:
        return tuple(h.strides[number] for h in heads)

    given, made = [p.given for p in full], [p.made for p in full]
    by_batch = c.strides[0] if len(c.shape) == 3 and c.shape[0] > 1 else 0
    rotation = Rotation(
        total, of(given, 0), of(given, 1), of(given, 2), of(made, 0), of(made, 1), of(made, 2),
        by_batch, c.strides[-2], tuple(heads), tuple(p.rotated for p in full), sum(heads),
        positions, size, -1 if back else 1,
    )  # fmt: skip
    places = [h.pointer for h in (*given, *made)]
    args: tuple[Argument, ...] = (*places, cosines, sines, rotation.pack())
    return Step(kernel, (cdiv(total, THREADS),), (THREADS,), args, early=True)
