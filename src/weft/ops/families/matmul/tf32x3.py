"""Plan products of float32 by three products of tf32, with the accuracy of single precision.

On Hopper one launch splits both operands into two parts, and wgmma multiplies them. Elsewhere a
kernel splits what it has read, where it is asked for: it is slower than single precision.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple

import torch

from weft.kernels import cdiv
from weft.kernels.structs import Int, LongLong, Struct
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Buffer, Map, Plan, Pointer, Step
from weft.ops.core.target import Target
from weft.ops.families.matmul import model, pipelined, scaled_model
from weft.ops.families.matmul.model import Tf32x3Tile
from weft.ops.families.matmul.pipelined_model import PipelinedTile
from weft.ops.families.matmul.product import Bias, Operand, Product, Side, side

PAD = 8
"""Padding words per row in shared memory."""
THREADS, SQUARE = 256, 64
"""Threads that split, and rows and columns of a block of an operand whose K is not contiguous."""
STEP_K = 32
"""K of a stage."""
MOST_SCRATCH = 512 * 2**20
"""Bytes of the parts of both operands; products with more are computed in several parts."""
MOST_CHUNKS, ALIGNED = 64, 256
"""Such parts of a product, and the multiple of rows, columns or terms at which they begin."""
TILES = tuple(tile for tile in scaled_model.PART_TILES if tile.resident == 1)


def candidates(p: Product, gpu: Target) -> list[Candidate]:
    """Candidates for a product with three products of tf32."""
    made = []
    for tile in model.TF32X3_TILES:
        blocks = cdiv(p.m, tile.bm) * cdiv(p.n, tile.bn) * p.batch
        why = f"{blocks} blocks for {gpu.sms} SMs, three products of tf32"
        name = f"3xtf32, {tile.bm} x {tile.bn}"
        build = functools.partial(_plan, p, tile)
        made.append(Candidate(name, tile.time(p, blocks, gpu), why, build))
    return made + split_candidates(p, gpu)


def _plan(p: Product, tile: Tf32x3Tile) -> Plan:
    a_mode, b_mode = p.a.mode(p.m, p.k), p.b.mode(p.n, p.k)
    assert a_mode is not None and b_mode is not None
    shape = (tile.bm, tile.bn, tile.bk, tile.wm, tile.wn, tile.stages)
    name = source.template("tensor", *shape, a_mode, b_mode, p.activation)
    kernel = source.kernel("matmul/tf32x3.cu", name)
    tiles = (cdiv(p.m, tile.bm), cdiv(p.n, tile.bn))
    pitches = (p.a.pitch(a_mode), p.b.pitch(b_mode))
    shared = 4 * tile.stages * tile.bk * (tile.bm + tile.bn + 2 * PAD)
    return p.plan(kernel, tiles, tile.threads, pitches, shared)


# ---- Hopper: both parts in memory ----------------------------------------------------------------
@dataclass(frozen=True)
class FloatMatrix(Struct):
    """An operand of float32, and its parts: two of each matrix, with rows of whole vectors."""

    extent: Annotated[Int, "along M or N"]
    k_extent: Int
    pitch: Annotated[Int, "of the parts: K, rounded up to a multiple of 4"]
    matrices: Int
    blocks: Annotated[Int, "that split it"]
    vectors: Annotated[Int, "1 if K is read by 16 bytes"]
    along: Annotated[LongLong, "strides of the operand"]
    k: LongLong
    batch: LongLong

    @property
    def elements(self) -> int:
        """Elements of both parts."""
        return 2 * self.matrices * self.extent * self.pitch


class _Split(NamedTuple):
    """An operand that is split, and the place of its parts."""

    x: Operand
    k_major: bool
    rows: FloatMatrix
    to: Pointer

    def maps(self, p: Product, along: int) -> tuple[Map, Map]:
        """The maps of its parts: matrices 2 n and 2 n + 1 are those of matrix n."""
        r = self.rows
        parts = Operand(self.to, r.pitch, 1, r.extent * r.pitch, 16)
        several = replace(p, batch=2 * r.matrices)
        kind = pipelined.ELEMENTS[torch.float32]
        return pipelined.operand_maps(
            kind, parts, Side(True, 16, r.pitch), r.extent, several, along
        )


def _split(p: Product, x: Operand, extent: int, to: Pointer) -> _Split:
    read, pitch = side(x, extent, p.k, 4), cdiv(p.k, 4) * 4
    matrices = p.batch if x.batch else 1
    rows = cdiv(matrices * extent * (pitch // 4), THREADS)
    squares = matrices * cdiv(pitch, SQUARE) * cdiv(extent, SQUARE)
    made = FloatMatrix(
        extent, p.k, pitch, matrices, rows if read.k_major else squares,
        int(read.k_major and read.bytes == 16), x.along, x.k, x.batch,
    )  # fmt: skip
    return _Split(x, read.k_major, made, to)


def _splits(p: Product) -> tuple[_Split, _Split]:
    number = p.scratch_number().number
    a = _split(p, p.a, p.m, Pointer(number))
    return a, _split(p, p.b, p.n, Pointer(number + 1))


class _Chunk(NamedTuple):
    """A part of a product, one after another: they share the memory of the parts of operands.

    c      where its results begin
    fresh  the operands that it splits; others have been split
    """

    product: Product
    c: Pointer
    fresh: str

    def transposed(self) -> _Chunk:
        """The same part of the transposed product."""
        swapped = self.fresh.translate(str.maketrans("ab", "ba"))
        return self._replace(product=self.product.transposed(), fresh=swapped)

    @property
    def elements(self) -> int:
        return sum(s.rows.elements for s in _splits(self.product))


def _chunks(p: Product) -> list[_Chunk]:
    """Parts of a product whose operands have too many elements; none if it has no such parts."""
    whole = _Chunk(p, p.c, "ab")
    if 4 * whole.elements <= MOST_SCRATCH:
        return [whole]
    if p.batch > 1 or p.bias or p.activation:
        return []
    along = max("mnk", key=lambda name: int(getattr(p, name)))
    extent: int = getattr(p, along)
    for count in range(2, MOST_CHUNKS + 1):
        each = cdiv(cdiv(extent, count), ALIGNED) * ALIGNED
        found = [_chunk(p, along, begin, each) for begin in range(0, extent, each)]
        if 4 * found[0].elements <= MOST_SCRATCH:
            return found
    return []


def _chunk(p: Product, along: str, begin: int, each: int) -> _Chunk:
    """`each` rows, columns or terms from `begin` on; terms are added to the results before."""
    size = min(each, getattr(p, along) - begin)
    a_step, b_step, c_step = {
        "m": (p.a.along, 0, p.row_c),
        "n": (0, p.b.along, p.column_c),
        "k": (p.a.k, p.b.k, 0),
    }[along]
    a, b = (_moved(x, begin * step) for x, step in ((p.a, a_step), (p.b, b_step)))
    part = replace(p, **{along: size}, a=a, b=b)
    if along == "k" and begin:
        part = replace(part, bias=Bias(p.c, 0, p.row_c, p.column_c))
    fresh = "ab" if along == "k" or not begin else "a" if along == "m" else "b"
    return _Chunk(part, Pointer(p.c.number, 4 * begin * c_step), fresh)


def _moved(x: Operand, elements: int) -> Operand:
    pointer = x.pointer._replace(offset=x.pointer.offset + 4 * elements)
    return x._replace(pointer=pointer)


def split_candidates(p: Product, gpu: Target) -> list[Candidate]:
    """Candidates on Hopper."""
    if gpu.capability != pipelined.CAPABILITY or p.k == 0:
        return []
    chunks = _chunks(p)
    if not chunks or max(p.m, p.n, p.k, p.batch) >= pipelined.MOST_ELEMENTS:
        return []
    first, *more = chunks
    split = scaled_model.split_time(first.elements, gpu)
    for chunk in more:
        split += scaled_model.split_time(
            sum(s.rows.elements for s, name in zip(_splits(chunk.product), "ab", strict=True)
                if name in chunk.fresh), gpu,
        )  # fmt: skip
    found = []
    for turned in (False, True):
        parts = [chunk.transposed() for chunk in chunks] if turned else chunks
        product = parts[0].product
        for tile in TILES:
            if tile.suits(product) and not pipelined.has_few_rows(product):
                found += _split_candidate(parts, tile, turned, split, gpu)
    return found


def _split_candidate(
    chunks: list[_Chunk], tile: PipelinedTile, turned: bool, split: float, gpu: Target
) -> list[Candidate]:
    p = chunks[0].product
    works, steps = tile.works(p), cdiv(p.k, STEP_K)
    like = pipelined.in_16_bits(p, 4)
    stages = tile.stages(gpu, 2 * tile.stage(True, True), like)
    clustered = tile.splits > 1
    if stages < 2 or (
        clustered and (works > pipelined.MOST_SPLIT * gpu.sms or tile.splits > steps)
    ):
        return []
    cost = scaled_model.three_products_time(tile, like, stages, p.column_c != 1, gpu)
    name = f"3xtf32, {tile.bm} x {tile.bn}{', turned' if turned else ''}"
    name += f", K in {tile.splits}" if clustered else ""
    name += f", {len(chunks)} parts" if len(chunks) > 1 else ""
    why = f"{works} tiles for {gpu.sms} SMs, {stages} stages, after a launch that splits"
    build = functools.partial(split_plan, chunks, tile, stages, gpu)
    return [Candidate(f"{name}, pipelined", split + len(chunks) * cost, why, build)]


def split_plan(chunks: list[_Chunk], tile: PipelinedTile, stages: int, gpu: Target) -> Plan:
    """The plan for a tile: for each part one launch splits, and one multiplies."""
    p = chunks[0].product
    steps = [step for chunk in chunks for step in _chunk_steps(chunk, tile, stages, gpu)]
    parts = (Buffer((s.rows.elements,), torch.float32) for s in _splits(p))
    return Plan((*p.before, *steps), (p.out,), (*p.scratch, *parts))


def _chunk_steps(chunk: _Chunk, tile: PipelinedTile, stages: int, gpu: Target) -> tuple[Step, Step]:
    p = chunk.product
    a, b = _splits(p)
    define = FloatMatrix.define()
    file = "matmul/split_tf32.cu"
    name = source.template("split", a.k_major, b.k_major)
    rows = [
        s.rows if which in chunk.fresh else replace(s.rows, blocks=0)
        for s, which in ((a, "a"), (b, "b"))
    ]
    given = [x for s, r in zip((a, b), rows, strict=True) for x in (s.x.pointer, s.to, r.pack())]
    blocks = sum(r.blocks for r in rows)
    kernel = source.kernel(file, name, **define)
    first = Step(kernel, (blocks,), (THREADS,), tuple(given), early=True)
    transposed = p.column_c != 1
    whole = (p.m if transposed else p.n) % 8 == 0 and max(p.row_c, p.column_c) % 2 == 0
    words = (tile.bm, tile.bn, stages, tile.splits, transposed, whole, p.activation)
    name = source.template("split_product", *words, pipelined.bias_kind(p))
    tiles = (cdiv(p.m, tile.bm), cdiv(p.n, tile.bn))
    works = tile.works(p)
    blocks = works * tile.splits if tile.splits > 1 else cdiv(works, cdiv(works, gpu.sms))
    args = (
        *a.maps(p, tile.bm), *b.maps(p, tile.bn), a.x.pointer, b.x.pointer, p.bias_pointer,
        chunk.c, a.rows.pack(), b.rows.pack(), p.problem(1, p.k, tiles, 0, 0),
    )  # fmt: skip
    shared = 1024 + stages * 2 * tile.stage(True, True) + tile.staging
    cluster = (tile.splits,) if tile.splits > 1 else None
    kernel = source.kernel(file, name, **define)
    return first, Step(kernel, (blocks,), (tile.threads,), args, shared, cluster, early=True)
