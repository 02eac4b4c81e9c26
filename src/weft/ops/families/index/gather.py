"""Plans gathers: elements by index along one dimension, one kernel for all layouts.

rows      neighbours of the result have one index and are neighbours of the input: whole vectors
elements  each element of the result has an index of its own
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.plan import Buffer, Layout, Plan, Pointer, Step
from weft.ops.families.index import model
from weft.ops.families.index.walk import Walk, full, is_wide, span, walk, without

BLOCK = 256


@dataclass(frozen=True)
class Gather:
    """A gather: x along `dim` by an index that has the shape of the result.

    step  elements between two rows of x
    """

    x: Layout
    index: Layout
    dim: int

    @property
    def step(self) -> int:
        return self.x.strides[self.dim]

    @property
    def walk(self) -> Walk:
        return walk(self.index.shape, without(self.x.strides, self.dim), self.index.strides)

    def takes_rows(self, vector: int) -> bool:
        """True if so many neighbours are one aligned vector of x."""
        steps = (*self.walk.strides[0][:-1], self.step)
        whole = self.x.aligned % (vector * self.x.itemsize) == 0
        adjacent = self.walk.strides[0][-1] == 1 and self.walk.strides[1][-1] == 0
        return adjacent and whole and all(s % vector == 0 for s in steps)

    def reads_index_as_vectors(self, vector: int) -> bool:
        aligned = self.index.aligned % min(16, vector * self.index.itemsize) == 0
        return self.walk.is_linear(1) and aligned


def candidates(request: Request, index: Layout, out: Buffer) -> list[Candidate]:
    """The candidates for x, input 0, by an index, input 1."""
    if index.numel == 0:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]
    x = full(request.first)
    job = Gather(x, index, request.options["dim"] % len(x.shape))
    return list(_candidates(request, job, out))


def _candidates(request: Request, job: Gather, out: Buffer) -> Iterator[Candidate]:
    read = job.index.itemsize * request.inputs[1].numel if request.inputs[1] else 0
    vector = 16 // job.x.itemsize
    while vector:
        for rows in (True, False):
            if job.walk.sizes[-1] % vector or (rows and not job.takes_rows(vector)):
                continue
            together = vector if rows else 1
            time = model.gather(request.target, job.index.numel, job.x.itemsize, read, together)
            name = f"{'rows' if rows else 'elements'} by {vector}"
            why = f"{job.index.numel} elements, {vector} per thread"
            # Of equals, the one with fewer threads.
            build = functools.partial(_plan, job, vector, rows, out)
            yield Candidate(name, time * (1 + 0.01 / vector), why, build)
        vector //= 2


def _plan(job: Gather, vector: int, rows: bool, out: Buffer) -> Plan:
    made = job.walk
    wide = is_wide(span(job.x), span(job.index), made.n)
    linear = not rows and job.reads_index_as_vectors(vector)
    words = (
        source.ctype(job.x.dtype), source.ctype(job.index.dtype), "long long" if wide else "int",
        made.rank, vector, str(rows).lower(), str(linear).lower(),
    )  # fmt: skip
    kernel = source.kernel("index/gather.cu", f"gather<{', '.join(map(str, words))}>")
    args = (Pointer(0), Pointer(1), Pointer(2), made.n, job.x.shape[job.dim], job.step,
            made.pack(wide))  # fmt: skip
    return Plan((Step(kernel, (cdiv(made.n, BLOCK * vector),), (BLOCK,), args),), (out,))
