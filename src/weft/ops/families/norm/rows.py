"""Tensors as rows to normalise: their layout in memory, and the threads of a row."""

from __future__ import annotations

import functools
import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Request
from weft.ops.core.plan import Buffer, Layout, Plan, Pointer, Step
from weft.ops.families.elementwise.copies import contiguous

BLOCK = 256


@dataclass(frozen=True)
class RowJob:
    """A call on rows of `n` elements: the addresses of its tensors, and copies that come first.

    vector   elements in a vector: all rows of all tensors are read in such vectors
    stride   elements from a row of the first tensor to its next
    ragged   vectors may reach out of their row, or weights may begin anywhere
    inputs   the addresses of inputs, by their number; None for an omitted one
    inner    elements that share a weight; 0: each has its own
    groups   rows until weights repeat
    """

    request: Request
    dtype: torch.dtype
    weight: torch.dtype
    count: int
    n: int
    stride: int
    vector: int
    ragged: bool
    inputs: tuple[Pointer | None, ...]
    outputs: tuple[Buffer, ...]
    before: tuple[Step, ...]
    scratch: tuple[Buffer, ...]
    cost: float
    inner: int = 0
    groups: int = 1

    @property
    def chunks(self) -> int:
        """Vectors of a row at the most; one that does not end with a vector may begin anywhere."""
        return cdiv(self.n, self.vector) + (self.n % self.vector > 0)

    def kernel(
        self,
        file: str,
        name: str,
        *parameters: object,
        weights: bool = True,
        ragged: bool = True,
        defines: Mapping[str, str] | None = None,
    ) -> Any:
        """A kernel for these rows with further template parameters.

        weights, ragged  True if it has parameters for them
        defines          macros of the source
        """
        dtypes = (self.dtype, self.weight) if weights else (self.dtype,)
        own = (*dtypes, self.vector, self.ragged) if ragged else (*dtypes, self.vector)
        words = map(_word, (*own, *parameters))
        return source.kernel(f"norm/{file}", f"{name}<{', '.join(words)}>", **(defines or {}))

    def output(self, number: int) -> Pointer:
        """The address of an output."""
        return Pointer(len(self.inputs) + number)

    def extra(self, number: int) -> Pointer:
        """The address of a scratch buffer that a plan adds."""
        return self.output(len(self.outputs) + len(self.scratch) + number)

    def plan(self, *steps: Step, scratch: tuple[Buffer, ...] = ()) -> Plan:
        """The plan of some launches."""
        return Plan((*self.before, *steps), self.outputs, (*self.scratch, *scratch))


def _word(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return source.ctype(value) if isinstance(value, torch.dtype) else str(value)


def row_job(
    request: Request, n: int, rows: Sequence[int], weights: Sequence[int],
    outputs: Sequence[Buffer], inner: int = 0, groups: int = 1, *, forward: bool = False,
    in_place: Container[int] = (), aligned_copies: bool = False,
) -> RowJob:  # fmt: skip
    """The job of a request whose inputs `rows` are tensors of rows of n elements.

    Tensors that are not contiguous are copied first. The kernels of the forward pass read a first
    tensor with gaps between its rows (RowJob.stride), and vectors with elements of several weights.
    `inner` and `groups`: see RowJob. Inputs in `in_place` are neither copied nor read in vectors.
    With `aligned_copies`, tensors that begin between vectors are copied as well.
    """
    inputs: list[Pointer | None] = []
    before: list[Step] = []
    scratch: list[Buffer] = []
    cost, aligned, even, stride = 0.0, 16, True, n
    for number, x in enumerate(request.inputs):
        pointer = None if x is None else Pointer(number)
        moves = x is not None and not (x.contiguous and (x.aligned == 16 or not aligned_copies))
        if x is not None and moves and number not in in_place:
            step = _gap(x, n) if forward and number == rows[0] else None
            if step is not None:
                stride = step
            else:
                pointer = Pointer(len(request.inputs) + len(outputs) + len(scratch))
                copy = contiguous(x, Pointer(number), pointer, request.target)
                before += copy.steps
                cost += copy.cost
                scratch.append(Buffer(x.shape, x.dtype))
        if x is not None and pointer == Pointer(number) and number not in in_place:
            if number in rows:
                aligned = min(aligned, x.aligned)
            elif number in weights:
                even = even and x.aligned == 16
        inputs.append(pointer)
    first = request.inputs[rows[0]]
    assert first is not None
    size = first.itemsize
    vector = max(1, aligned // size)
    if stride != n:  # rows with gaps begin where vectors do, or are read one by one
        vector = math.gcd(vector, stride, n)
    elif inner and not forward:  # one weight for a vector
        vector = math.gcd(vector, inner)
    elif n % vector and n < 4 * vector:  # most vectors would cross the end of the row
        vector = math.gcd(vector, n)
    even = inner % vector == 0 if inner else even
    weight = next((w.dtype for w in map(request.inputs.__getitem__, weights) if w), first.dtype)
    return RowJob(
        request, first.dtype, weight, first.numel // n, n, stride, vector,
        n % vector > 0 or not even, tuple(inputs), tuple(outputs), tuple(before), tuple(scratch),
        cost, inner, groups,
    )  # fmt: skip


def _gap(x: Layout, n: int) -> int | None:
    """Elements from a row to the next where rows of n are contiguous and evenly apart."""
    if len(x.shape) != 2 or x.shape[1] != n or x.strides[1] != 1 or x.strides[0] < n:
        return None
    return x.strides[0]


class RowStrategy(NamedTuple):
    """The threads of a row, and the memory that has its elements.

    threads    for a row; up to a warp, several rows share a block
    registers  vectors that each thread has in registers
    shared     vectors that each thread has in shared memory
    resident   blocks for each SM, which take one row after another; 0: a block for each row
    prefetch   True: such a block loads its next row while it stores the results of one
    least      threads of a block whose rows have up to a warp each
    """

    threads: int
    registers: int
    shared: int = 0
    resident: int = 0
    prefetch: bool = False
    least: int = 128

    @property
    def block(self) -> int:
        """Threads of a block; see the kernels."""
        return self.least if self.threads <= 32 else self.threads

    @property
    def rows(self) -> int:
        """Rows of a block at a time."""
        return self.block // self.threads

    def grid(self, job: RowJob) -> int:
        """Blocks; the rows of one that stays begin at the same place of a vector."""
        all_rows = cdiv(job.count, self.rows)
        if not self.resident:
            return all_rows
        cycle = job.vector // math.gcd(job.vector, self.rows * job.n)
        blocks = self.resident * job.request.target.sms
        return min(all_rows, max(cycle, blocks - blocks % cycle))


@functools.cache
def threads_of(chunks: int, most: int) -> tuple[int, int, int]:
    """(threads per row, vectors per thread in registers, vectors per thread in shared memory)."""
    per_thread = min(most, 4) if chunks <= 128 else most
    threads = 1
    while threads * per_thread < chunks and threads < 512:
        threads *= 2
    # Two blocks of 512 threads overlap their loads and stores; a larger one has its SM alone.
    if cdiv(chunks, threads) > 2 * most:
        threads = 1024
    each = cdiv(chunks, threads)
    return threads, min(most, each), max(0, each - most)


def parts_of(job: RowJob) -> int:
    """Blocks for a row: enough to fill the GPU, each with at least 8 vectors per thread."""
    return max(1, min(cdiv(8 * job.request.target.sms, job.count), cdiv(job.chunks, 8 * BLOCK)))
