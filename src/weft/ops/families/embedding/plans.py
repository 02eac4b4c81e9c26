"""Plan the rows of a table by index, and the gradient of the table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.plan import Argument, Buffer, Layout, Plan, Pointer, Step
from weft.ops.families.embedding import model
from weft.ops.families.embedding.model import BACKWARD_BLOCK, FORWARD_BLOCK
from weft.ops.families.loss.operands import Operands


def _vector(columns: int, itemsize: int, *aligned: int) -> int:
    """Elements per access: 16 bytes where all rows begin at multiples of them."""
    vector = 16 // itemsize
    while vector > 1 and (columns % vector or min(aligned) % (vector * itemsize)):
        vector //= 2
    return vector


# ---- forward -----------------------------------------------------------------------------------
def gather(request: Request) -> list[Candidate]:
    """The candidate of the forward pass."""
    index, table = request.inputs
    assert index is not None and table is not None
    rows, columns = table.shape
    out = Buffer((*index.shape, columns), table.dtype)
    if 0 in out.shape:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]
    time = model.gather_time(index, columns, table.itemsize, request.target)

    def plan() -> Plan:
        tensors = Operands(request, (out,))
        indices, _ = tensors.dense(0)
        # Rows may have gaps between them: a copy of the table would take longer than the call.
        adjacent = table.strides[1] == 1 or columns == 1
        weight: Argument = Pointer(1)
        read: Layout | None = table
        if not adjacent:
            weight, read = tensors.dense(1)
        assert read is not None
        pitch = read.strides[0]
        vector = _vector(math.gcd(columns, pitch), table.itemsize, read.aligned)
        chunks = columns // vector
        blocks = min(cdiv(index.numel * chunks, FORWARD_BLOCK), 32 * request.target.sms)
        types = f"{source.ctype(table.dtype)}, {source.ctype(index.dtype)}, {vector}"
        kernel = source.kernel("embedding/table.cu", f"gather<{types}>")
        args = (indices, weight, tensors.output(0), index.numel, rows, chunks, pitch)
        return tensors.plan(Step(kernel, (blocks,), (FORWARD_BLOCK,), args, early=True))

    return [Candidate("gather", time, f"{columns} columns", plan)]


# ---- gradient ----------------------------------------------------------------------------------
def _gradient_of_table(
    request: Request,
    name: str,
    launches: int,
    steps: Callable[[Operands], Sequence[Step]],
    *,
    zeroed: bool = False,
) -> list[Candidate]:
    """The candidate that adds gradients of rows by these steps; `zeroed`: to zeros."""
    dy = request.inputs[0]
    assert dy is not None
    (positions, columns), rows = dy.shape, request.options["rows"]
    nothing = 0 in (positions, rows, columns)
    out = Buffer((rows, columns), dy.dtype, zeroed=nothing or zeroed)
    if nothing:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]
    time = model.gradient_time(positions, rows, columns, dy.itemsize, launches, request.target)

    def plan() -> Plan:
        tensors = Operands(request, (out,))
        return tensors.plan(*steps(tensors))

    return [Candidate(name, time, f"{positions} rows for {rows}", plan)]


def sorted_gradient(request: Request) -> list[Candidate]:
    """The candidate of the gradient from sorted positions."""
    padding = request.options["padding_idx"]

    def steps(tensors: Operands) -> Sequence[Step]:
        return sorted_sums(tensors, 0, 1, 2, padding=padding)

    return _gradient_of_table(request, "sorted", 3, steps, zeroed=True)


def sorted_sums(
    tensors: Operands, rows: int, keys: int, order: int, base: int | None = None, padding: int = -1
) -> Sequence[Step]:
    """The launches that add rows with equal keys, and write the sums to the output.

    rows, keys, order, base  the numbers of inputs: rows in any order, sorted keys, the row that
                             each key is of, and the values that the sums are added to
    """
    given = tensors.request.inputs[rows]
    assert given is not None
    positions, columns = given.shape
    (values, dense), (sorted_keys, _), (places, _) = map(tensors.dense, (rows, keys, order))
    before, under = (None, None) if base is None else tensors.dense(base)
    assert dense is not None
    aligned = [dense.aligned, *([under.aligned] if under is not None else [])]
    vector = _vector(columns, given.itemsize, *aligned)
    each = max(model.PIECE, cdiv(positions, model.PIECES))
    width = 1
    while width < min(BACKWARD_BLOCK, cdiv(columns, vector)):
        width *= 2
    pieces = cdiv(positions, each)
    partials = tensors.buffer(Buffer((pieces * 2 * columns,), total(given.dtype)))
    grid = (cdiv(pieces, BACKWARD_BLOCK // width), cdiv(cdiv(columns, vector), width))
    types = f"{source.ctype(given.dtype)}, {vector}"
    numbers = (positions, each, columns, width, padding)
    rest = (sorted_keys, places, tensors.output(0), before, partials, *numbers)
    first, second = (
        source.kernel("embedding/table.cu", f"{name}<{types}>")
        for name in ("add_pieces", "join_pieces")
    )
    block = (BACKWARD_BLOCK,)
    return Step(first, grid, block, (values, *rest), early=True), Step(
        second, grid, block, rest, early=True
    )


def total(dtype: torch.dtype) -> torch.dtype:
    """The dtype of sums, as `Total` in table.cu."""
    if not dtype.is_floating_point:
        return torch.int64
    return torch.float64 if dtype is torch.float64 else torch.float32


def unsorted_gradient(request: Request) -> list[Candidate]:
    """The candidate of the gradient from positions in any order: few, or of few rows."""
    dy = request.inputs[0]
    assert dy is not None
    positions, rows = dy.shape[0], request.options["rows"]
    if positions > model.UNSORTED and rows <= model.TABLE_ROWS:
        return _gradient_of_table(request, "tables of blocks", 2, lambda t: _by_tables(request, t))
    if positions <= model.UNSORTED and positions >= model.SHARED_POSITIONS * rows:
        return _gradient_of_table(request, "unsorted", 1, lambda t: _by_rows(request, t))
    return _gradient_of_table(request, "listed", 1, lambda t: _by_lists(request, t))


def _by_rows(request: Request, tensors: Operands) -> Sequence[Step]:
    dy, index = request.inputs
    assert dy is not None and index is not None
    (positions, columns), rows = dy.shape, request.options["rows"]
    (gradient, dense), (indices, _) = (tensors.dense(i) for i in range(2))
    assert dense is not None
    vector = _vector(columns, dy.itemsize, dense.aligned)
    chunks = columns // vector
    width, threads = model.block_of(positions, rows, chunks, request.target.sms)
    types = f"{source.ctype(dy.dtype)}, {source.ctype(index.dtype)}, {vector}"
    kernel = source.kernel("embedding/table.cu", f"add_rows<{types}>")
    numbers = (positions, columns, width, threads, request.options["padding_idx"])
    args = (gradient, indices, tensors.output(0), *numbers)
    return (Step(kernel, (rows, cdiv(chunks, width)), (FORWARD_BLOCK,), args, early=True),)


def _by_lists(request: Request, tensors: Operands) -> Sequence[Step]:
    dy, index = request.inputs
    assert dy is not None and index is not None
    (positions, columns), rows = dy.shape, request.options["rows"]
    (gradient, dense), (indices, _) = (tensors.dense(i) for i in range(2))
    assert dense is not None
    vector = _vector(columns, dy.itemsize, dense.aligned)
    shift, width = model.lists_of(positions, rows, columns // vector)
    types = f"{source.ctype(dy.dtype)}, {source.ctype(index.dtype)}, {vector}"
    kernel = source.kernel("embedding/table.cu", f"add_listed<{types}>")
    numbers = (positions, rows, columns, shift, width, request.options["padding_idx"])
    args = (gradient, indices, tensors.output(0), *numbers)
    grid = (1 << shift, cdiv(columns // vector, width))
    memory = model.list_bytes(positions, rows, shift)
    return (Step(kernel, grid, (model.LISTED_BLOCK,), args, memory, early=True),)


def _by_tables(request: Request, tensors: Operands) -> Sequence[Step]:
    dy, index = request.inputs
    assert dy is not None and index is not None
    (positions, columns), rows = dy.shape, request.options["rows"]
    (gradient, dense), (indices, _) = (tensors.dense(i) for i in range(2))
    assert dense is not None
    vector = _vector(columns, dy.itemsize, dense.aligned)
    threads, vector, width = model.tables_of(rows, columns, vector)
    slices = cdiv(columns, vector * width)
    blocks = max(
        1, min(model.RESIDENT * request.target.sms // slices, cdiv(positions, FORWARD_BLOCK))
    )
    each = cdiv(positions, blocks)
    blocks = cdiv(positions, each)
    tables = tensors.buffer(Buffer((blocks * rows * columns,), torch.float32))
    kind = source.ctype(dy.dtype)
    types = f"{kind}, {source.ctype(index.dtype)}, {vector}"
    first = source.kernel("embedding/table.cu", f"add_tables<{types}>")
    second = source.kernel("embedding/table.cu", f"join_tables<{kind}>")
    numbers = (positions, rows, columns, each, width, request.options["padding_idx"])
    count = rows * columns
    return (
        Step(
            first, (blocks, slices), (threads,), (gradient, indices, tables, *numbers), early=True
        ),
        Step(
            second,
            (cdiv(count, 32),),
            (FORWARD_BLOCK,),
            (tables, tensors.output(0), count, blocks),
            early=True,
        ),
    )
