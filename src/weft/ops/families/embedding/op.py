"""embedding: rows of a table by index, and the deterministic gradient of the table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.kernels import cdiv
from weft.ops.core import library, source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.plan import Argument, Buffer, Layout, Plan, Pointer, Step
from weft.ops.families.loss.operands import Operands

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
INDICES = (torch.int64, torch.int32)
BLOCK, GROUPS = 256, 128
"""Threads of a block, of the forward pass and of the backward pass."""
LEAST, PIECES = 32, 4096
"""The least positions in a piece, and the pieces from which on they grow."""
FEW = 4096
"""Positions up to which they are not sorted, which takes several launches; as in embedding.cu."""
TABLE = 12288
"""Numbers of the tables that a block has in shared memory; as in embedding.cu."""
FEW_ROWS = TABLE // GROUPS
"""Rows of a table up to which positions are not sorted: each block adds to tables of its own."""
RESIDENT = 4
"""Blocks of a multiprocessor that have such tables at once."""
SEVERAL = 4
"""Positions of a row from which on several threads share them."""
EACH = 8
"""Vectors that a thread writes where rows have few positions."""


def _vector(columns: int, itemsize: int, *aligned: int) -> int:
    """Elements per access: 16 bytes where all rows begin at multiples of them."""
    vector = 16 // itemsize
    while vector > 1 and (columns % vector or min(aligned) % (vector * itemsize)):
        vector //= 2
    return vector


# ---- forward -----------------------------------------------------------------------------------
def _gather(request: Request) -> list[Candidate]:
    index, table = request.inputs
    assert index is not None and table is not None
    rows, columns = table.shape
    out = Buffer((*index.shape, columns), table.dtype)
    if 0 in out.shape:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]
    moved = 2 * index.numel * columns * table.itemsize
    time = request.target.launch + moved / request.target.bandwidth

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
        blocks = min(cdiv(index.numel * chunks, BLOCK), 32 * request.target.sms)
        types = f"{source.ctype(table.dtype)}, {source.ctype(index.dtype)}, {vector}"
        kernel = source.kernel("embedding/embedding.cu", f"gather<{types}>")
        args = (indices, weight, tensors.output(0), index.numel, rows, chunks, pitch)
        return tensors.plan(Step(kernel, (blocks,), (BLOCK,), args))

    return [Candidate("gather", time, f"{columns} columns", plan)]


# ---- backward ----------------------------------------------------------------------------------
def _gradient_of_table(
    request: Request,
    name: str,
    launches: int,
    steps: Callable[[Operands], Sequence[Step]],
    *,
    zeroed: bool = False,
) -> list[Candidate]:
    """The candidate that adds gradients of rows by these steps; `zeroed`: into zeros."""
    dy = request.inputs[0]
    assert dy is not None
    (positions, columns), rows = dy.shape, request.options["rows"]
    nothing = 0 in (positions, rows, columns)
    out = Buffer((rows, columns), dy.dtype, zeroed=nothing or zeroed)
    if nothing:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]
    moved = (positions + rows) * columns * dy.itemsize
    time = launches * request.target.launch + moved / request.target.bandwidth

    def plan() -> Plan:
        tensors = Operands(request, (out,))
        return tensors.plan(*steps(tensors))

    return [Candidate(name, time, f"{positions} rows for {rows}", plan)]


def _scatter(request: Request) -> list[Candidate]:
    padding = request.options["padding_idx"]

    def steps(tensors: Operands) -> Sequence[Step]:
        return sorted_sums(tensors, 0, 1, 2, padding=padding)

    return _gradient_of_table(request, "sorted", 3, steps, zeroed=True)


def sorted_sums(
    tensors: Operands, rows: int, keys: int, order: int, base: int | None = None, padding: int = -1
) -> Sequence[Step]:
    """The launches that add rows with equal keys, and write the sums to the output.

    rows, keys, order, base  the numbers of inputs: rows in any order, sorted keys, the row that
                             each key is of, and what the sums are added to
    """
    given = tensors.request.inputs[rows]
    assert given is not None
    positions, columns = given.shape
    (values, dense), (sorted_keys, _), (places, _) = map(tensors.dense, (rows, keys, order))
    before, under = (None, None) if base is None else tensors.dense(base)
    assert dense is not None
    aligned = [dense.aligned, *([under.aligned] if under is not None else [])]
    vector = _vector(columns, given.itemsize, *aligned)
    each = max(LEAST, cdiv(positions, PIECES))
    width = 1
    while width < min(GROUPS, cdiv(columns, vector)):
        width *= 2
    pieces = cdiv(positions, each)
    partials = tensors.buffer(Buffer((pieces * 2 * columns,), total(given.dtype)))
    grid = (cdiv(pieces, GROUPS // width), cdiv(cdiv(columns, vector), width))
    types = f"{source.ctype(given.dtype)}, {vector}"
    numbers = (positions, each, columns, width, padding)
    rest = (sorted_keys, places, tensors.output(0), before, partials, *numbers)
    first, second = (
        source.kernel("embedding/embedding.cu", f"{name}<{types}>")
        for name in ("add_pieces", "join_pieces")
    )
    return Step(first, grid, (GROUPS,), (values, *rest)), Step(second, grid, (GROUPS,), rest)


def total(dtype: torch.dtype) -> torch.dtype:
    """The dtype of sums, as `Total` in embedding.cu."""
    if not dtype.is_floating_point:
        return torch.int64
    return torch.float64 if dtype is torch.float64 else torch.float32


def _scatter_few(request: Request) -> list[Candidate]:
    dy, index = request.inputs
    assert dy is not None and index is not None
    (positions, columns), rows = dy.shape, request.options["rows"]
    padding, sms = request.options["padding_idx"], request.target.sms

    def steps(tensors: Operands) -> Sequence[Step]:
        (gradient, dense), (indices, _) = (tensors.dense(i) for i in range(2))
        assert dense is not None
        vector = _vector(columns, dy.itemsize, dense.aligned)
        chunks = columns // vector
        share, width, groups = block_of(positions, rows, chunks, sms)
        types = f"{source.ctype(dy.dtype)}, {source.ctype(index.dtype)}, {vector}"
        kernel = source.kernel("embedding/embedding.cu", f"add_rows<{types}>")
        grid = (cdiv(rows, share), cdiv(chunks, width))
        numbers = (positions, rows, columns, share, width, groups, padding)
        return (Step(kernel, grid, (BLOCK,), (gradient, indices, tensors.output(0), *numbers)),)

    if positions > FEW:
        return _gradient_of_table(request, "tables of blocks", 2, lambda t: _by_tables(request, t))
    return _gradient_of_table(request, "unsorted", 1, steps)


def _by_tables(request: Request, tensors: Operands) -> Sequence[Step]:
    dy, index = request.inputs
    assert dy is not None and index is not None
    (positions, columns), rows = dy.shape, request.options["rows"]
    (gradient, dense), (indices, _) = (tensors.dense(i) for i in range(2))
    assert dense is not None
    vector = _vector(columns, dy.itemsize, dense.aligned)
    threads, vector, width = tables_of(rows, columns, vector)
    slices = cdiv(columns, vector * width)
    blocks = max(1, min(RESIDENT * request.target.sms // slices, cdiv(positions, BLOCK)))
    each = cdiv(positions, blocks)
    blocks = cdiv(positions, each)
    tables = tensors.buffer(Buffer((blocks * rows * columns,), torch.float32))
    kind = source.ctype(dy.dtype)
    types = f"{kind}, {source.ctype(index.dtype)}, {vector}"
    first = source.kernel("embedding/embedding.cu", f"add_tables<{types}>")
    second = source.kernel("embedding/embedding.cu", f"join_tables<{kind}>")
    numbers = (positions, rows, columns, each, width, request.options["padding_idx"])
    count = rows * columns
    return (
        Step(first, (blocks, slices), (threads,), (gradient, indices, tables, *numbers)),
        Step(second, (cdiv(count, 32),), (BLOCK,), (tables, tensors.output(0), count, blocks)),
    )


def tables_of(rows: int, columns: int, vector: int) -> tuple[int, int, int]:
    """(threads of a block, elements per access, accesses per row) whose tables fit in a block."""
    threads = BLOCK if rows * BLOCK <= TABLE else GROUPS
    while rows * threads * vector > TABLE:
        vector //= 2
    return threads, vector, min(threads, 1 << (cdiv(columns, vector) - 1).bit_length())


def block_of(positions: int, rows: int, chunks: int, sms: int) -> tuple[int, int, int]:
    """(rows of the table that a block writes, vectors of each, threads that share a vector)."""
    if positions < SEVERAL * rows:
        width = min(chunks, EACH * BLOCK)
        return max(1, min(EACH * BLOCK // width, cdiv(rows, SEVERAL * sms))), width, 1
    width = min(BLOCK, 1 << (chunks - 1).bit_length())
    while width > EACH and rows * cdiv(chunks, width) < 2 * sms:
        width //= 2
    groups = 1
    while groups < BLOCK // width and groups * SEVERAL < positions // rows:
        groups *= 2
    return 1, width, groups


# ---- definitions -------------------------------------------------------------------------------
def _check(input: Any, weight: Any, padding_idx: int | None) -> None:
    for name, x, allowed in (("input", input, INDICES), ("weight", weight, DTYPES)):
        if x.dtype not in allowed:
            raise ArgumentError(
                f"weft.ops.embedding: '{name}' has a dtype that no kernel takes",
                got=str(x.dtype),
                allowed=", ".join(str(d).removeprefix("torch.") for d in allowed),
            )
    if weight.dim() != 2:
        raise ArgumentError(
            "weft.ops.embedding: 'weight' must be a table of rows",
            got=f"{weight.dim()} dimensions", allowed="[rows, columns]",
        )  # fmt: skip
    rows = weight.shape[0]
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise ArgumentError(
            "weft.ops.embedding: there is no such row",
            got=f"padding_idx={padding_idx}", allowed=f"{-rows} to {rows - 1}",
        )  # fmt: skip
    if input.numel() and not rows:
        raise ArgumentError("weft.ops.embedding: 'weight' has no rows", got=str(list(weight.shape)))


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    index, weight, padding = inputs
    ctx.save_for_backward(index)
    ctx.rows = weight.shape[0]
    # No index is -1, so it stands for no padding.
    ctx.padding = -1 if padding is None else padding % max(ctx.rows, 1)


def _backward(ctx: Any, grad: Any) -> Any:
    (index,) = ctx.saved_tensors
    flat = grad.reshape(-1, grad.shape[-1]) if grad.numel() else grad.new_empty((0, grad.shape[-1]))
    if index.numel() <= FEW or ctx.rows <= FEW_ROWS:
        few = library.call("embedding_backward_few")
        return None, few(flat, index.reshape(-1), ctx.rows, ctx.padding), None
    keys, order = torch.sort(index.reshape(-1), stable=True)
    call = library.call("embedding_backward")
    return None, call(flat, keys.long(), order, ctx.rows, ctx.padding), None


def _setup_backward(ctx: Any, inputs: Any, output: Any) -> None:
    _, keys, order, _, ctx.padding = inputs
    ctx.save_for_backward(keys, order)


def _second(ctx: Any, v: Any) -> Any:
    keys, order = ctx.saved_tensors
    rows = _rows(ctx, v, keys)
    return torch.empty_like(rows).index_copy(0, order, rows), None, None, None, None


def _setup_few(ctx: Any, inputs: Any, output: Any) -> None:
    _, index, _, ctx.padding = inputs
    ctx.save_for_backward(index)


def _second_few(ctx: Any, v: Any) -> Any:
    return _rows(ctx, v, *ctx.saved_tensors), None, None, None


def _rows(ctx: Any, v: Any, index: Any) -> Any:
    """The gradient is linear in that of the result: the same rows of its gradient."""
    rows = library.call("embedding")(index, v.contiguous(), None)
    return rows.masked_fill((index == ctx.padding).unsqueeze(1), 0)


GROUP = "attention, embedding"
DEFINITIONS = (
    Definition(
        name="embedding",
        schema="(Tensor input, Tensor weight, int? padding_idx=None) -> Tensor",
        doc="""The rows of weight that input has the indices of, as torch.nn.functional.embedding.

        An index that is no row fails an assertion of the kernel, as in PyTorch; on the simulated
        GPU that is weft.AssertFailed. The gradient of weight is deterministic: the
        rows of each index are added in an order that follows from the positions, in float32;
        torch.sort orders more than 4,096 positions of more than 96 rows. That of the row
        padding_idx is 0.
        """,
        fake=lambda input, weight, padding_idx=None: weight.new_empty(
            (*input.shape, weight.shape[1])
        ),
        candidates=_gather,
        check=_check,
        setup=_setup,
        backward=_backward,
        autocast=None,
    ),
    Definition(
        name="embedding_backward",
        schema="(Tensor dy, Tensor keys, Tensor order, int rows, int padding_idx) -> Tensor",
        doc="The gradient of embedding's weight, from sorted indices and their positions.",
        fake=lambda dy, keys, order, rows, padding_idx: dy.new_empty((rows, dy.shape[1])),
        candidates=_scatter,
        setup=_setup_backward,
        backward=_second,
        autocast=None,
        public=False,
    ),
    Definition(
        name="embedding_backward_few",
        schema="(Tensor dy, Tensor index, int rows, int padding_idx) -> Tensor",
        doc="The gradient of embedding's weight, from indices in any order: few, or of few rows.",
        fake=lambda dy, index, rows, padding_idx: dy.new_empty((rows, dy.shape[1])),
        candidates=_scatter_few,
        setup=_setup_few,
        backward=_second_few,
        autocast=None,
        public=False,
    ),
)
