"""Plans sums by index along one dimension: deterministic ones, and others by atomic additions.

atomic  not deterministic: each element is added to its place at once
search  for few positions along the dimension: each element of the result looks for its own
lines   a thread adds all positions of a line along the dimension
sorted  positions come sorted by their place in the result: the kernels of the embedding's gradient
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.layouts import dense
from weft.ops.core.plan import Buffer, Layout, Plan, Pointer, Step
from weft.ops.core.target import Target
from weft.ops.families.elementwise.copies import contiguous
from weft.ops.families.elementwise.jobs import BroadcastOperand, ElementwiseJob
from weft.ops.families.elementwise.pointwise import strategies
from weft.ops.families.embedding.plans import sorted_sums, total
from weft.ops.families.index import model
from weft.ops.families.index.walk import Walk, full, is_wide, span, walk, without
from weft.ops.families.loss.operands import Operands

BLOCK, LINES = 256, 128
"""Threads of a block of `search`, and of `lines`."""
EACH = 4
"""Elements that a thread of `atomic` adds."""


@dataclass(frozen=True)
class Sum:
    """A call: base (None: zeros) + src, at the places along `dim` that index has.

    first  the number of base among the inputs; index and src follow it. -1: there is no base
    """

    target: Target
    base: Layout | None
    index: Layout
    src: Layout
    shape: tuple[int, ...]
    dim: int
    first: int

    @property
    def out(self) -> Buffer:
        return Buffer(self.shape, self.src.dtype)

    @property
    def pointers(self) -> tuple[Pointer | None, Pointer, Pointer, Pointer]:
        """The addresses of base, index, src and the result."""
        base = None if self.base is None else Pointer(self.first)
        index, src, out = (Pointer(self.first + i) for i in (1, 2, 3))
        return base, index, src, out

    @property
    def positions(self) -> int:
        return self.index.shape[self.dim]

    @property
    def covers_all(self) -> bool:
        """True if index has every line of the result."""
        pairs = zip(self.index.shape, self.shape, strict=True)
        return all(a == b for d, (a, b) in enumerate(pairs) if d != self.dim)

    @property
    def wide(self) -> bool:
        given = [span(t) for t in (self.base, self.index, self.src) if t is not None]
        return is_wide(*given, _count(self.shape))

    @property
    def steps(self) -> tuple[int, int]:
        """Elements between two positions along the dimension, of index and of src."""
        return self.index.strides[self.dim], self.src.strides[self.dim]

    def types(self, sums: torch.dtype, *more: object) -> str:
        """The template arguments of a kernel whose sums have this dtype."""
        offset = "long long" if self.wide else "int"
        kinds = (self.src.dtype, sums, self.index.dtype)
        return ", ".join(map(str, (*map(source.ctype, kinds), offset, *more)))


def _count(shape: tuple[int, ...]) -> int:
    n = 1
    for size in shape:
        n *= size
    return n


def candidates(
    request: Request, index: Layout, src: Layout, shape: tuple[int, ...], base: Layout | None
) -> list[Candidate]:
    """The candidates of a call; see `Sum`."""
    out = Buffer(shape, src.dtype, zeroed=base is None)
    if _count(shape) == 0:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]
    if index.numel == 0:
        build = functools.partial(_copied, request, base, out)
        return [Candidate("copy", request.target.launch, "no indices", build)]
    index, full_shape = full(index), shape or (1,)
    dim = request.options["dim"] % len(full_shape)
    job = Sum(
        request.target, None if base is None else full(base), index,
        full(src)._replace(shape=index.shape), full_shape, dim, -1 if base is None else 0,
    )  # fmt: skip
    return list(_candidates(job, out, request.options["deterministic"]))


def _copied(request: Request, base: Layout | None, out: Buffer) -> Plan:
    if base is None:
        return Plan((), (out,))
    end = Pointer(len(request.inputs))
    return Plan(contiguous(base, Pointer(0), end, request.target).steps, (out,))


def _candidates(job: Sum, out: Buffer, deterministic: bool) -> Iterator[Candidate]:
    gpu, n, size = job.target, _count(job.shape), job.src.itemsize
    count = job.index.numel // job.positions
    why = f"{job.positions} positions in each of {count} lines"
    if deterministic:
        time = model.lines(gpu, count, job.positions, size)
        build = functools.partial(_added, job, out, total(job.src.dtype), _line_sums)
        yield Candidate("lines", time, why, build)
    else:
        read = job.index.numel * (size + job.index.itemsize)
        time = model.atomic(gpu, job.index.numel, read + 2 * n * size)
        dtype = job.src.dtype if size >= 4 else total(job.src.dtype)
        build = functools.partial(_added, job, out, dtype, _atomic_sums)
        yield Candidate("atomic", time, why, build)
    if job.covers_all and job.positions <= model.MOST_SEARCHED:
        made = _searched(job)
        vector = 16 // size
        while made.sizes[-1] % vector:
            vector //= 2
        time = model.search(gpu, n, size, job.positions, vector)
        build = functools.partial(_search, job, made, vector, out._replace(zeroed=False))
        yield Candidate("search", time, why, build)


# ---- search ------------------------------------------------------------------------------------
def _searched(job: Sum) -> Walk:
    base = (0,) * len(job.shape) if job.base is None else job.base.strides
    row = tuple(int(d == job.dim) for d in range(len(job.shape)))
    indexed = (without(t.strides, job.dim) for t in (job.index, job.src))
    return walk(job.shape, base, *indexed, row)


def _search(job: Sum, made: Walk, vector: int, out: Buffer) -> Plan:
    name = f"search<{job.types(total(job.src.dtype), made.rank, vector)}>"
    kernel = source.kernel("index/scatter.cu", name)
    args = (*job.pointers, made.n, job.positions, job.shape[job.dim], *job.steps,
            made.pack(job.wide))  # fmt: skip
    return Plan((Step(kernel, (cdiv(made.n, BLOCK * vector),), (BLOCK,), args),), (out,))


# ---- additions to memory: lines and atomic -----------------------------------------------------
def _added(
    job: Sum, out: Buffer, dtype: torch.dtype, adding: Callable[[Sum, torch.dtype, Pointer], Step]
) -> Plan:
    """Sums of the result's dtype are added in place, others in a buffer of theirs."""
    end = job.pointers[3]
    steps: list[Step] = []
    scratch: tuple[Buffer, ...] = ()
    sums, buffers = end, (out,)
    if dtype is not job.src.dtype:
        sums = Pointer(end.number + 1)
        buffers = (out._replace(zeroed=False),)
        scratch = (Buffer(out.shape, dtype, zeroed=job.base is None),)
    if job.base is not None:
        start = job.pointers[0]
        assert start is not None
        steps.append(_converted(job, job.base, start, dtype, sums))
    steps.append(adding(job, dtype, sums))
    if dtype is not job.src.dtype:
        whole = Layout(dtype, job.shape, dense(job.shape), 16)
        steps.append(_converted(job, whole, sums, job.src.dtype, end))
    return Plan(tuple(steps), buffers, scratch)


def _line_sums(job: Sum, dtype: torch.dtype, sums: Pointer) -> Step:
    sizes = tuple(1 if d == job.dim else n for d, n in enumerate(job.index.shape))
    places = dense(job.shape)
    made = walk(sizes, job.index.strides, job.src.strides, places)
    kernel = source.kernel("index/scatter.cu", f"lines<{job.types(dtype, made.rank)}>")
    _, index, src, _ = job.pointers
    args = (index, src, sums, made.n, job.positions, job.shape[job.dim], *job.steps,
            places[job.dim], made.pack(job.wide))  # fmt: skip
    return Step(kernel, (cdiv(made.n, LINES),), (LINES,), args)


def _atomic_sums(job: Sum, dtype: torch.dtype, sums: Pointer) -> Step:
    places = dense(job.shape)
    made = walk(job.index.shape, job.index.strides, job.src.strides, without(places, job.dim))
    kernel = source.kernel("index/scatter.cu", f"atomic<{job.types(dtype, made.rank, EACH)}>")
    _, index, src, _ = job.pointers
    args = (index, src, sums, made.n, job.shape[job.dim], places[job.dim], made.pack(job.wide))
    return Step(kernel, (cdiv(made.n, BLOCK * EACH),), (BLOCK,), args)


def _converted(job: Sum, x: Layout, start: Pointer, dtype: torch.dtype, end: Pointer) -> Step:
    """The fastest copy of x to a contiguous tensor of another dtype."""
    ctype = source.ctype(dtype)
    operand = BroadcastOperand(source.ctype(x.dtype), x.itemsize, x.strides, x.aligned, start)
    through = "float" if dtype.itemsize == 2 else ctype
    copy = ElementwiseJob("a", through, x.shape, (operand,), ctype, dtype.itemsize, end)
    return min(strategies(copy, job.target), key=lambda s: s.cost).build()


# ---- keys, and sums in their order -------------------------------------------------------------
def keys(request: Request) -> list[Candidate]:
    """The place in the result of each element of src, as `Definition.candidates`."""
    index, shape = full(request.first), tuple(request.options["shape"]) or (1,)
    out = Buffer((index.numel,), torch.int64)
    if index.numel == 0:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]
    dim = request.options["dim"] % len(shape)
    places = dense(shape)
    made = walk(index.shape, index.strides, without(places, dim))

    def build() -> Plan:
        wide = is_wide(span(index), _count(shape))
        types = f"{source.ctype(index.dtype)}, {'long long' if wide else 'int'}, {made.rank}"
        kernel = source.kernel("index/scatter.cu", f"keys<{types}>")
        args = (Pointer(0), Pointer(1), made.n, shape[dim], places[dim], made.pack(wide))
        return Plan((Step(kernel, (cdiv(made.n, BLOCK),), (BLOCK,), args),), (out,))

    time = request.target.launch + index.numel * 16 / request.target.bandwidth
    return [Candidate("keys", time, f"{index.numel} indices", build)]


def by_keys(request: Request) -> list[Candidate]:
    """Rows of src by sorted keys, added to base, as `Definition.candidates`."""
    base, src = request.inputs[:2]
    assert src is not None
    out = Buffer((request.options["rows"], src.shape[1]), src.dtype, zeroed=base is None)
    if src.numel == 0 or 0 in out.shape:
        build = functools.partial(_copied, request, base if out.shape[0] else None, out)
        return [Candidate("copy", request.target.launch, "no indices", build)]

    def plan() -> Plan:
        tensors = Operands(request, (out,))
        start = []
        if base is not None:
            copy = contiguous(base, Pointer(0), tensors.output(0), request.target)
            start = list(copy.steps)
        return tensors.plan(*start, *sorted_sums(tensors, 1, 2, 3, None if base is None else 0))

    time = model.by_sort(request.target, src.shape[0], 2 * src.numel * src.itemsize)
    return [Candidate("sorted", time, f"{src.shape[0]} rows for {out.shape[0]}", plan)]
