"""Plan products of fp8 and int8 with scales: Hopper's TMA and wgmma, and a kernel for any GPU."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import torch

from weft.device.tensor_map_layout import TYPES
from weft.kernels import cdiv
from weft.kernels.structs import Int, LongLong, Struct
from weft.ops.core import source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.plan import Buffer, Plan, Pointer, Step
from weft.ops.core.target import Target
from weft.ops.families.matmul import aligned_copy, scaled_model
from weft.ops.families.matmul.pipelined import (
    CAPABILITY,
    MOST_ELEMENTS,
    MOST_SPLIT,
    bias_kind,
    has_few_rows,
    in_16_bits,
    operand_maps,
)
from weft.ops.families.matmul.pipelined_model import PipelinedTile
from weft.ops.families.matmul.product import Bias, Operand, Product, Side, side

A, B, SCALE_A, SCALE_B, BIAS = range(5)
"""Numbers of the inputs."""
FAST, PARTS, BLOCKS = range(3)
"""Sums of a kernel: by tensor cores alone, in parts of 128 of K, and with scales of each part."""
BLOCK = 128
"""Elements of K, of rows or of columns that share a scale of a block."""
NAMES = {torch.float8_e4m3fn: "E4m3", torch.float8_e5m2: "E5m2", torch.int8: "signed char"}
BYTES = TYPES[0]
"""The type of the tensor maps of fp8 and of int8."""


@dataclass(frozen=True)
class Scales(Struct):
    """Places of the scales: (row >> rows) * row_a + block of K * k_a, and the same for B."""

    rows: Annotated[Int, "7 if 128 rows of A share a scale, else 0"]
    columns: Int
    row_a: LongLong
    k_a: LongLong
    column_b: LongLong
    k_b: LongLong

    def transposed(self) -> Scales:
        """Those of the transposed product."""
        return Scales(self.columns, self.rows, self.column_b, self.k_b, self.row_a, self.k_a)


class ScaledProduct(NamedTuple):
    """A product, the dtypes of its operands, their scales, and how it is summed."""

    product: Product
    dtypes: tuple[torch.dtype, torch.dtype]
    scales: Scales
    inputs: tuple[Pointer, Pointer]
    sums: int

    def transposed(self) -> ScaledProduct:
        """The same product as the transpose of B' A'."""
        return self._replace(
            product=self.product.transposed(),
            dtypes=self.dtypes[::-1],
            scales=self.scales.transposed(),
            inputs=self.inputs[::-1],
        )

    @property
    def elements(self) -> tuple[str, str]:
        """The elements of the kernels on Hopper in C++, and their name."""
        left, right = (NAMES[dtype] for dtype in self.dtypes)
        return (left, "int8") if self.dtypes[0] is torch.int8 else (f"Fp8<{left}, {right}>", "fp8")

    @property
    def reach(self) -> tuple[int, int]:
        """Elements from the first scale of a row, or of a column, to the last one."""
        p, s = self.product, self.scales
        return p.m * s.row_a, p.n * s.column_b

    def columns_differ(self, tile: PipelinedTile) -> bool:
        """True if the columns of a tile have several scales."""
        shared = self.scales.columns and BLOCK % tile.bn == 0
        return self.scales.column_b != 0 and not shared

    def scale_bytes(self, tile: PipelinedTile) -> tuple[int, int]:
        """Bytes of shared memory for scales: of a stage, and of a block."""
        each = self.columns_differ(tile)
        if self.sums == BLOCKS:
            return 4 * (tile.bm + (tile.bn if each else 4)), 0
        columns = tile.bn // math.gcd(tile.bn // 8, tile.splits)
        return 0, 4 * tile.bm // 16 * columns if each else 0


def scaled_product(request: Request) -> ScaledProduct:
    """The product of a request."""
    a, b, scale_a, scale_b, bias = request.inputs
    assert a is not None and b is not None and scale_a is not None and scale_b is not None
    (m, k), n = a.shape, b.shape[1]
    left = Operand(Pointer(A), a.strides[0] if m > 1 else k, 1, 0, a.aligned)
    right = Operand(Pointer(B), b.strides[1] if n > 1 else k, 1, 0, b.aligned)
    added = None if bias is None else Bias(Pointer(BIAS), 0, 0, bias.strides[0] if n > 1 else 0)
    out = Buffer((m, n), request.options["out_dtype"] or torch.bfloat16)
    product = Product(1, m, n, k, left, right, added, n, 1, 0, out, inputs=len(request.inputs))
    rows, row_a, k_a = _places(scale_a.shape, scale_a.strides, m)
    columns, column_b, k_b = _places(scale_b.shape[::-1], scale_b.strides[::-1], n)
    scales = Scales(rows, columns, row_a, k_a, column_b, k_b)
    # Sums of integers are exact.
    fast = FAST if request.options["use_fast_accum"] or a.dtype is torch.int8 else PARTS
    sums = BLOCKS if k_a or k_b else fast
    inputs = Pointer(SCALE_A), Pointer(SCALE_B)
    return ScaledProduct(product, (a.dtype, b.dtype), scales, inputs, sums)


def _places(shape: tuple[int, ...], strides: tuple[int, ...], extent: int) -> tuple[int, int, int]:
    """(shift of a row, stride of its scales, stride of blocks of K) of scales [rows, blocks]."""
    if len(shape) < 2:
        return 0, 0, 0
    along, k = (stride if size > 1 else 0 for size, stride in zip(shape, strides, strict=True))
    return 7 if shape[0] != extent else 0, along, k


# ---- candidates --------------------------------------------------------------------------------
def candidates(request: Request) -> list[Candidate]:
    """Candidates for a product of fp8 or of int8."""
    made, gpu = scaled_product(request), request.target
    p = made.product
    if 0 in (p.m, p.n):
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (p.out,)))]
    found = [_any_candidate(made, gpu)]
    largest = max(p.m, p.n, p.k, *(abs(x) for x in made.reach))
    if gpu.capability != CAPABILITY or p.k == 0 or largest >= MOST_ELEMENTS:
        return found
    unaligned = "".join(n for n, s in zip("ab", sides(p), strict=True) if s.bytes < 16)
    return found + (_copying(made, unaligned, gpu) if unaligned else _tiles(made, gpu))


def _tiles(made: ScaledProduct, gpu: Target) -> list[Candidate]:
    """Candidates for rows that begin at multiples of 16 bytes."""
    found = []
    for turned in (False, True):
        ordered = made.transposed() if turned else made
        for tile in scaled_model.TILES if made.sums == FAST else scaled_model.PART_TILES:
            if tile.suits(ordered.product) and not has_few_rows(ordered.product):
                found += _candidate(ordered, tile, turned, gpu)
    return found


def _copying(made: ScaledProduct, names: str, gpu: Target) -> list[Candidate]:
    """Candidates that first copy operands to such rows."""
    product, cost, what = aligned_copy.copied(made.product, gpu, names, made.dtypes[0])
    best = sorted(_tiles(made._replace(product=product), gpu), key=lambda c: c.cost)
    return [
        Candidate(f"{what}, {c.name}", cost + c.cost, c.why, c.build)
        for c in best[: aligned_copy.MOST]
    ]


def sides(p: Product) -> tuple[Side, Side]:
    """Access to both operands."""
    return side(p.a, p.m, p.k, 1), side(p.b, p.n, p.k, 1)


def _candidate(
    made: ScaledProduct, tile: PipelinedTile, turned: bool, gpu: Target
) -> list[Candidate]:
    p = made.product
    stage = tile.stage(True, True)
    of_stage, of_block = made.scale_bytes(tile)
    works = tile.works(p)
    stages = tile.stages(gpu, stage + of_stage, in_16_bits(p, 1), of_block)
    if stages < 2 or tile.splits > cdiv(p.k, BLOCK):
        return []
    if tile.splits > 1 and works > MOST_SPLIT * gpu.sms:
        return []
    if made.sums == BLOCKS and tile.resident > 1:  # another warp copies their scales
        return []
    name = f"{tile.bm} x {tile.bn}{', turned' if turned else ''}"
    name += f", {tile.resident} an SM" if tile.resident > 1 else ""
    name += f", K in {tile.splits}" if tile.splits > 1 else ""
    why = f"{works} tiles for {gpu.sms} SMs, {stages} stages"
    cost = tile.time(in_16_bits(p, 1), gpu, stage, turned)
    if made.sums != FAST:
        each = made.sums == BLOCKS and made.columns_differ(tile)
        cost += scaled_model.parts_time(tile, works * tile.splits, cdiv(p.k, BLOCK), each, gpu)
    build = functools.partial(plan, made, tile, stages, gpu)
    return [Candidate(f"{name}, {made.elements[1]}, pipelined", cost, why, build)]


def plan(made: ScaledProduct, tile: PipelinedTile, stages: int, gpu: Target) -> Plan:
    """The plan for a tile on Hopper."""
    p = made.product
    a, b = sides(p)
    transposed = p.column_c != 1
    whole = (p.m if transposed else p.n) % 8 == 0
    alone = tile.resident == 1
    words = (tile.bm, tile.bn, stages, *(() if alone else (tile.resident,)), tile.splits)
    name = source.template(
        "scaled" if alone else "scaled_beside", made.elements[0],
        source.ctype(p.out.dtype), *words, made.sums, made.columns_differ(tile), transposed, whole,
        bias_kind(p),
    )  # fmt: skip
    kernel = source.kernel("matmul/scaled.cu", name, **Scales.define())
    tiles = (cdiv(p.m, tile.bm), cdiv(p.n, tile.bn))
    works = tiles[0] * tiles[1]
    rounds = cdiv(works, gpu.sms * tile.resident)
    blocks = cdiv(works, rounds) if alone else min(works, gpu.sms * tile.resident)
    blocks = works * tile.splits if tile.splits > 1 else blocks
    args = (
        *operand_maps(BYTES, p.a, a, p.m, p, tile.bm),
        *operand_maps(BYTES, p.b, b, p.n, p, tile.bn),
        *made.inputs, p.bias_pointer, p.c, made.scales.pack(),
        p.problem(1, p.k, tiles, a.pitch, b.pitch),
    )  # fmt: skip
    of_stage, of_block = made.scale_bytes(tile)
    shared = 1024 + stages * (tile.stage(True, True) + of_stage) + of_block + tile.staging
    cluster = (tile.splits,) if tile.splits > 1 else None
    step = Step(kernel, (blocks,), (tile.threads,), args, shared, cluster, early=True)
    return Plan((*p.before, step), (p.out,), p.scratch)


def _any_candidate(made: ScaledProduct, gpu: Target) -> Candidate:
    p = made.product
    tiles = (cdiv(p.m, scaled_model.ANY_TILE), cdiv(p.n, scaled_model.ANY_TILE))
    integers = made.dtypes[0] is torch.int8
    why = f"{tiles[0] * tiles[1]} tiles for {gpu.sms} SMs"
    why += "" if integers else ", converted to float16"
    build = functools.partial(_any_plan, made, tiles)
    name = "64 x 64, int8" if integers else "64 x 64, converted"
    return Candidate(name, scaled_model.any_time(p, gpu), why, build)


def _any_plan(made: ScaledProduct, tiles: tuple[int, int]) -> Plan:
    """The plan for any GPU and any rows."""
    p = made.product
    a, b = sides(p)
    vectors = min(a.bytes, b.bytes) == 16 and p.k % 16 == 0
    names = (NAMES[dtype] for dtype in made.dtypes)
    name = source.template("multiply", *names, source.ctype(p.out.dtype), vectors)
    kernel = source.kernel("matmul/scaled_any.cu", name, **Scales.define())
    args = (
        p.a.pointer, p.b.pointer, *made.inputs, p.bias_pointer, p.c, made.scales.pack(),
        p.problem(1, p.k, tiles, a.pitch, b.pitch),
    )  # fmt: skip
    step = Step(kernel, (tiles[0] * tiles[1],), (scaled_model.ANY_THREADS,), args)
    return Plan((step,), (p.out,))
