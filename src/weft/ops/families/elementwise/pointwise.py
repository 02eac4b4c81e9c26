"""Plans of elementwise expressions: a dense output from operands with any strides.

All elementwise ops and copies use `strategies`. The kernels are in cuda/elementwise.cu:

flat        all operands have the output's order
strided     the offset in each operand is computed from the element index; vectors where possible
transposed  transposes tiles in shared memory, for operands with another innermost dimension
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Sequence
from typing import NamedTuple

from weft.errors import ArgumentError
from weft.kernels import cdiv
from weft.ops.core.layouts import dense, divisor
from weft.ops.core.plan import Step
from weft.ops.core.target import Target
from weft.ops.families.elementwise import model
from weft.ops.families.elementwise.jobs import (
    EACH,
    LINEAR,
    OPERANDS,
    ROW,
    SAME,
    SHIFTED,
    TRANSPOSED,
    BroadcastOperand,
    ElementwiseJob,
    Strategy,
    vectors,
)

THREADS = 256
RANK = 6
"""The most dimensions that the kernels support."""
INT32_INDICES = 2**31
"""Indices and offsets below this use 32-bit arithmetic."""
SHARED = 48 * 1024
"""The most bytes of static shared memory."""


def strategies(job: ElementwiseJob, target: Target) -> list[Strategy]:
    """All strategies for a job that is not empty."""
    job = job.merged()
    if len(job.sizes) == 1 and all(o.strides[0] in (0, 1) for o in job.operands):
        return _flat(job, target)
    if len(job.sizes) > RANK:
        raise ArgumentError(
            "weft.ops: the operands have too many dimensions of different order",
            got=f"{len(job.sizes)} dimensions that cannot be merged",
            allowed=f"up to {RANK}",
            next="call x.contiguous() on one of them",
        )
    return [*_strided(job, target), *_transposed(job, target)]


# ---- flat --------------------------------------------------------------------------------------
def _flat(job: ElementwiseJob, target: Target) -> list[Strategy]:
    steps = [o.strides[0] for o in job.operands]
    full = [o for o in job.operands if o.strides[0]]
    vector = next(
        v for v in vectors(job) if all(o.aligned % (v * o.itemsize) == 0 for o in full) or v == 1
    )
    why = f"all operands have one order; {vector} elements per load, {job.moved:,} bytes"

    def build(times: int) -> Step:
        missing = [0] * (OPERANDS - len(steps))
        make = job.kernel("flat", vector, times)
        return make(cdiv(job.n, THREADS * vector * times), THREADS, job.n, *steps, *missing)

    whole = next(vectors(job))
    widest = max(job.out_itemsize, *(o.itemsize for o in full), 1)
    options = []
    for times in (1, 2, 4) if vector * widest < 16 else (1,):
        each = vector * widest * times
        wide = each >= 16 and vector * widest > model.WORD
        slow = max(
            1.0 if wide else model.SHORT_LOAD_FACTOR, model.FLAT_BYTES / each
        )  # memory is idle
        time = target.launch + slow * job.moved / target.bandwidth
        name = "flat" if times == 1 else f"flat, {times} each"
        options.append(Strategy(name, time, why, functools.partial(build, times)))
    # Only the operands that are not aligned are read element by element.
    return [*options, *(_strided(job, target, whole) if vector < whole else ())]


# ---- strided -----------------------------------------------------------------------------------
def _strided(job: ElementwiseJob, target: Target, least: int = 1) -> list[Strategy]:
    options = []
    for vector in (v for v in vectors(job) if v >= least):
        modes = [_mode(o, job.sizes, vector) for o in job.operands]
        covered = THREADS * vector * model.unrolled(job, vector)
        bound = target.bandwidth * min(1.0, job.moved / model.traffic(job, modes, covered))
        slots = model.issued(job, modes, vector) / (target.fp32 / 2)
        time = target.launch + max(job.moved / bound * model.apart_cost(job, modes, vector), slots)
        elements = f"{vector} element{'s' if vector > 1 else ''} per thread at a time"
        why = f"{len(job.sizes)} dimensions, {elements}, {job.moved:,} bytes"
        build = functools.partial(_strided_step, job, tuple(modes), vector)
        options.append(Strategy(f"strided by {vector}", time, why, build))
    return options


def _mode(operand: BroadcastOperand, sizes: Sequence[int], vector: int) -> int:
    """The access mode of an operand for `vector` adjacent elements."""
    whole = operand.aligned % (vector * operand.itemsize) == 0
    if operand.strides == dense(sizes) and (whole or vector * operand.itemsize >= model.WORD):
        return LINEAR if whole else SHIFTED
    if sizes[-1] % vector or vector == 1:
        return EACH
    if operand.strides[-1] == 0:
        return SAME
    rows = whole and all(s % vector == 0 for s in operand.strides[:-1])
    return ROW if operand.strides[-1] == 1 and rows else EACH


def _strided_step(job: ElementwiseJob, modes: Sequence[int], vector: int) -> Step:
    last = [
        sum((n - 1) * s for n, s in zip(job.sizes, o.strides, strict=True)) for o in job.operands
    ]
    bits = 32 if max(job.n + THREADS * model.IN_FLIGHT, *last) < INT32_INDICES else 64
    times = model.unrolled(job, vector)
    index = "int" if bits == 32 else "long long"
    three = [*modes, *[SAME] * (OPERANDS - len(modes))]
    make = job.kernel("strided", index, len(job.sizes), vector, times, *three)
    grid = cdiv(job.n, THREADS * vector * times)
    return make(grid, THREADS, job.n, _walk(job, bits))


def _walk(job: ElementwiseJob, bits: int) -> bytes:
    """The kernel's struct Walk: dimensions, innermost first."""
    sizes = job.sizes[::-1]
    factors = [divisor(size, bits) for size in sizes]
    rows = [sizes, [f[0] for f in factors], [f[1] for f in factors]]
    rows += [o.strides[::-1] for o in job.operands]
    rows += [(0,) * len(sizes)] * (OPERANDS - len(job.operands))
    letter = "I" if bits == 32 else "Q"
    return struct.pack(f"<{len(rows) * len(sizes)}{letter}", *(v for row in rows for v in row))


# ---- transposed ---------------------------------------------------------------------------------


class _TransposeTiles(NamedTuple):
    """The tiling of a job: the number of dimension p, and sides and vectors along p and q."""

    dim: int
    side_p: int
    side_q: int
    vector_p: int
    vector_q: int
    modes: tuple[int, ...]

    def slowness(self, job: ElementwiseJob) -> float:
        """The cost relative to a copy: accesses of less than a word are as slow as those of one."""
        widest = max(job.out_itemsize, *(o.itemsize for o in job.operands))
        # Bytes also meet in banks of shared memory.
        parts = [model.WORD / (v * widest) for v in (self.vector_p, self.vector_q)]
        sides = [p * (2 if widest == 1 else 1) if p > 1 else 1.0 for p in parts]
        ragged = min(self.vector_p, self.vector_q) == 1
        return (model.RAGGED_TILE_FACTOR if ragged else model.TILE_FACTOR) * sum(sides) / 2

    def count(self, job: ElementwiseJob) -> int:
        """The number of tiles; each is one block."""
        tiles = cdiv(job.sizes[self.dim], self.side_p) * cdiv(job.sizes[-1], self.side_q)
        return tiles * math.prod(job.sizes) // (job.sizes[self.dim] * job.sizes[-1])


def _transposed(job: ElementwiseJob, target: Target) -> list[Strategy]:
    options = []
    for dim in _transposable(job):
        tiles = _tiles(job, dim)
        sides = ((job.sizes[-1], tiles.side_q), (job.sizes[dim], tiles.side_p))
        lanes = math.prod(cdiv(size, side) * side / size for size, side in sides)
        each = [m if m == EACH else ROW for m in tiles.modes]
        moved = model.traffic(job, each, 1) * tiles.slowness(job) * max(1, lanes / model.TILE_FILL)
        moved *= (
            model.THIN_TILE_FACTOR if min(job.sizes[dim], job.sizes[-1]) < model.THIN_TILE else 1.0
        )
        slots = 24 * job.n * lanes / (target.fp32 / 2)
        blocks = tiles.count(job) * model.TILE_TIME / (model.TILES_PER_SM * target.sms)
        time = target.launch + max(moved / target.bandwidth, slots, blocks)
        why = (
            f"tiles of {tiles.side_p} x {tiles.side_q}, {tiles.vector_p} elements per load, "
            f"{tiles.vector_q} per store"
        )
        build = functools.partial(_transposed_step, job, tiles)
        options.append(Strategy(f"transposed along {dim}", time, why, build))
    return options


def _transposable(job: ElementwiseJob) -> list[int]:
    """Dimensions that are innermost in an operand but not in the output."""
    dims = {
        dim
        for o in job.operands
        for dim in range(len(job.sizes) - 1)
        if o.strides[dim] == 1 and o.strides[-1] > 1
    }
    return sorted(dims)


def _tiles(job: ElementwiseJob, dim: int) -> _TransposeTiles:
    widest = max(job.out_itemsize, *(o.itemsize for o in job.operands))
    area, side = model.TILE_ELEMENTS[widest], model.TILE_SIDE[widest]
    p, q = (max(4, 1 << (job.sizes[d] - 1).bit_length()) for d in (dim, -1))
    side_q = min(q, side)
    side_p = min(p, area // side_q)
    side_q = min(q, area // side_p)  # use the remaining area for longer rows
    side_p = max(side_p, THREADS // side_q)
    tile = widest * side_q * (side_p + 4 // min(4, widest)) + side_q // 2
    modes: list[int] = []
    for o in job.operands:
        elsewhere = o.strides[dim] == 1 and o.strides[-1] > 1
        room = (modes.count(TRANSPOSED) + 1) * tile <= SHARED
        modes.append(TRANSPOSED if elsewhere and room else SAME if o.strides[-1] == 0 else EACH)
    transposed = [o for o, m in zip(job.operands, modes, strict=True) if m == TRANSPOSED]
    fit = [v for v in vectors(job) if v * THREADS <= side_p * side_q]
    vector_p = next(
        v
        for v in fit
        if v == 1 or (v <= side_p and all(_rows_of(o, job.sizes, dim, v) for o in transposed))
    )
    vector_q = next(v for v in fit if v == 1 or (v <= side_q and job.sizes[-1] % v == 0))
    final = tuple(
        ROW if m == EACH and o.strides[-1] == 1 and _rows_of(o, job.sizes, -1, vector_q) else m
        for o, m in zip(job.operands, modes, strict=True)
    )
    return _TransposeTiles(dim, side_p, side_q, vector_p, vector_q, final)


def _rows_of(operand: BroadcastOperand, sizes: Sequence[int], dim: int, vector: int) -> bool:
    """True if all rows along a dimension are aligned to the vector size."""
    others = [s for d, s in enumerate(operand.strides) if d != dim % len(sizes)]
    whole = operand.aligned % (vector * operand.itemsize) == 0
    return whole and all(s % vector == 0 for s in others)


def _transposed_step(job: ElementwiseJob, tiles: _TransposeTiles) -> Step:
    dim, last = tiles.dim, len(job.sizes) - 1
    batch = [d for d in range(last) if d != dim][::-1]
    plain = dense(job.sizes)
    three = [o.strides for o in job.operands]
    three += [(0,) * len(job.sizes)] * (OPERANDS - len(three))
    p, q = job.sizes[dim], job.sizes[last]
    tiles_p, tiles_q = cdiv(p, tiles.side_p), cdiv(q, tiles.side_q)
    values = [p, q, tiles_p, tiles_q, plain[dim], *(s[dim] for s in three)]
    values += [s[last] for s in three]
    over = batch or [-1]  # C++ structs have no zero-length arrays
    values += [job.sizes[d] if d >= 0 else 1 for d in over]
    for strides in (plain, *three):
        values += [strides[d] if d >= 0 else 0 for d in over]
    modes = [*tiles.modes, *[SAME] * (OPERANDS - len(tiles.modes))]
    make = job.kernel("transposed", len(over), *tiles[1:5], THREADS, *modes)
    return make(tiles.count(job), THREADS, struct.pack(f"<{len(values)}q", *values))
