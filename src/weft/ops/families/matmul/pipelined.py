"""Plan products whose operands tensor maps describe: Hopper's TMA and wgmma.

Elements have 16 bits, or 32: these are multiplied in tf32, and K is contiguous in both operands.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import NamedTuple

import torch

from weft.device.tensor_map_encoding import MapRequest
from weft.device.tensor_map_layout import TYPES, ElementType
from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Map, Plan, Step
from weft.ops.core.target import Target
from weft.ops.families.matmul.pipelined_model import TILES, PipelinedTile
from weft.ops.families.matmul.product import Operand, Product, Side

CAPABILITY = (9, 0)
MOST_ELEMENTS = 2**31
"""Elements along a dimension, and tiles of a launch: coordinates are ints."""
STEP_BYTES = 128
"""Bytes of K of a stage."""
SWIZZLE_128, L2_128 = 3, 2
"""Numbers of a swizzle of 128 bytes and of fetches of 128 bytes in a tensor map."""


class MappedElements(NamedTuple):
    """A dtype of operands: the type of its tensor maps, and the source of its kernels."""

    kind: ElementType
    file: str

    @property
    def step(self) -> int:
        """K of a stage."""
        return STEP_BYTES // self.kind.size


_KINDS = {kind.name: kind for kind in TYPES}
ELEMENTS = {
    torch.float16: MappedElements(_KINDS["f16"], "matmul/pipelined.cu"),
    torch.bfloat16: MappedElements(_KINDS["bf16"], "matmul/pipelined.cu"),
    torch.float32: MappedElements(_KINDS["tf32"], "matmul/tf32.cu"),
}
"""Copies round float32 to tf32, to the nearest; tensor cores alone would cut it."""


def candidates(p: Product, gpu: Target) -> list[Candidate]:
    """Candidates: none for other GPUs, nor for rows that are no whole vectors."""
    wide = min(side.bytes for side in p.sides) == 16
    turns = p.out.dtype.itemsize == 2 or all(side.k_major for side in p.sides)
    largest, step = max(p.m, p.n, p.k, p.batch), ELEMENTS[p.out.dtype].step
    if gpu.capability != CAPABILITY or not wide or not turns:
        return []
    if largest >= MOST_ELEMENTS or p.k < step:
        return []
    made = []
    for tile in TILES:
        for turned in (False, True):
            made += _candidate(p.transposed() if turned else p, tile, turned, gpu)
    return made


def _candidate(p: Product, tile: PipelinedTile, turned: bool, gpu: Target) -> list[Candidate]:
    a, b = p.sides
    stage = tile.stage(a.k_major, b.k_major)
    stages, steps = tile.stages(gpu, stage), cdiv(p.k, ELEMENTS[p.out.dtype].step)
    # A tile that is much larger than C leaves a smaller one the same work.
    if stages < 2 or tile.splits > steps or 1 not in (p.row_c, p.column_c):
        return []
    name = f"{tile.bm} x {tile.bn}{', turned' if turned else ''}"
    name += f", {tile.resident} an SM" if tile.resident > 1 else ""
    name += f", K in {tile.splits}" if tile.splits > 1 else ""
    works = cdiv(p.m, tile.bm) * cdiv(p.n, tile.bn) * p.batch
    why = f"{works} tiles for {gpu.sms} SMs, {stages} stages"
    build = functools.partial(plan, p, tile, stages, gpu)
    cost = tile.time(in_16_bits(p, p.out.dtype.itemsize), gpu, stage, p.column_c != 1)
    return [Candidate(f"{name}, pipelined", cost, why, build)]


def in_16_bits(p: Product, size: int) -> Product:
    """The product of 16-bit elements whose stages are those of elements of so many bytes.

    An instruction takes 32 bytes of K in the same time, whatever their elements are.
    """
    return replace(p, k=cdiv(p.k * size, 2), out=p.out._replace(dtype=torch.float16))


def plan(p: Product, tile: PipelinedTile, stages: int, gpu: Target) -> Plan:
    """The plan for a tile."""
    a, b = p.sides
    transposed = p.column_c != 1
    whole = (p.m if transposed else p.n) % 8 == 0
    alone = tile.resident == 1
    words = (tile.bm, tile.bn, stages, *(() if alone else (tile.resident,)), tile.splits)
    name = source.template(
        "pipelined" if alone else "pipelined_beside", source.ctype(p.out.dtype), *words,
        a.k_major, b.k_major, transposed, whole, p.activation, bias_kind(p),
    )  # fmt: skip
    elements = ELEMENTS[p.out.dtype]
    kernel = source.kernel(elements.file, name)
    tiles = (cdiv(p.m, tile.bm), cdiv(p.n, tile.bn))
    works = tiles[0] * tiles[1] * p.batch
    rounds = cdiv(works, gpu.sms * tile.resident)
    # No more blocks than the rounds need: an idle SM leaves the others power.
    blocks = works * tile.splits if tile.splits > 1 else cdiv(works, rounds)
    maps = (
        tensor_map(elements.kind, p.a, a, p.m, p, tile.bm),
        tensor_map(elements.kind, p.b, b, p.n, p, tile.bn),
    )
    args = (*maps, p.bias_pointer, p.c, p.problem(1, p.k, tiles, a.pitch, b.pitch))
    shared = 1024 + stages * tile.stage(a.k_major, b.k_major) + tile.staging
    cluster = (tile.splits,) if tile.splits > 1 else None
    step = Step(kernel, (blocks,), (tile.threads,), args, shared, cluster, early=True)
    return Plan((*p.before, step), (p.out,), p.scratch)


def bias_kind(p: Product) -> int:
    """The kernel's number for a bias: none, for each column, for each row, for each element."""
    if p.bias is None:
        return 0
    return 1 if p.bias.m == 0 else 2 if p.bias.n == 0 else 3


def tensor_map(
    kind: ElementType, x: Operand, side: Side, extent: int, p: Product, along: int
) -> Map:
    """The map of an operand as (K, M or N, batch) if K is contiguous, else (M or N, K, batch)."""
    inner, outer = (p.k, extent) if side.k_major else (extent, p.k)
    # A row that is the only one, and a matrix that all products share, have no strides.
    pitch, whole = side.pitch or inner, 16 // kind.size
    pitch = cdiv(pitch, whole) * whole if outer == 1 else pitch
    batch = x.batch or pitch * outer
    sizes = (inner, outer, p.batch if x.batch else 1)
    box = (STEP_BYTES // kind.size, along if side.k_major else 64, 1)
    strides = (kind.size * pitch, kind.size * batch)
    request = MapRequest(kind, 0, sizes, strides, (1, 1, 1), box, swizzle=SWIZZLE_128, l2=L2_128)
    return Map(x.pointer, request)
