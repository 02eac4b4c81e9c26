"""Plans sorts of whole rows: in a warp, in a block, or by radix passes over memory."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import torch

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Argument, Buffer, Plan, Pointer, Step
from weft.ops.families.sort import model
from weft.ops.families.sort.job import Job, Rows
from weft.ops.families.sort.model import H200

THREADS = 256
"""Threads of a block of `sort_warps`."""
EACH, MOST = 8, 16
"""Elements of a lane in `sort_warps`, and the most where 32 lanes have a row."""
SHORT_STATUS = 2**30
"""Elements of a row up to which a tile's count fits a word of 32 bits."""
BINS = 256


class Tile(NamedTuple):
    """The elements of a block: `warps` of 32 lanes with `items` each."""

    warps: int
    items: int

    @property
    def size(self) -> int:
        return 32 * self.warps * self.items


BLOCKS = (Tile(8, 2), Tile(8, 4), Tile(8, 8), Tile(8, 16), Tile(16, 16), Tile(32, 16))
PASSES = (Tile(8, 16), Tile(16, 16))
KEYS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Dtypes of buffers for keys, by their size in bytes."""


def candidates(job: Job) -> list[Candidate]:
    """The candidates that sort all elements of each row."""
    return [*_warps(job), *_blocks(job), *_passes(job)]


def _io(job: Job, together: bool) -> float:
    """Seconds to read the rows and to write the results once."""
    r, size = job.rows, int(job.dtype.itemsize)
    read = r.n * model.element_bytes(r.x_step, r.x_inner, size, together)
    wide = [size] * (job.values is not None) + [8] * (job.indices is not None)
    near = functools.partial(model.element_bytes, r.y_step, r.y_inner, together=together)
    return model.moved(job.gpu, r.rows * (read + r.count * sum(near(itemsize=w) for w in wide)))


# ---- short rows --------------------------------------------------------------------------------
def _power(least: int) -> int:
    """The least power of two that is at least this number."""
    return 1 << max(0, least - 1).bit_length()


def _warps(job: Job) -> list[Candidate]:
    r, size = job.rows, int(job.dtype.itemsize)
    width = _power(r.n)
    if width > 32 * (EACH if size == 8 else MOST):
        return []
    each = min(width, max(EACH, width // 32))
    lanes = width // each
    blocks = cdiv(r.rows, THREADS // lanes)
    words = max(1, size // 4 + 1 if size > 2 else 1)
    shared = THREADS * (each + 1) * 4 * (4 if words == 3 else words)
    levels = width.bit_length() - 1
    steps = each * (levels * (levels + 1) / 2 * H200.exchange * words + 20 * words)
    held = model.resident(job.gpu, THREADS, shared)
    time = job.gpu.launch + H200.latency
    time += max(_io(job, True), model.busy(job.gpu, blocks, THREADS // 32, held, steps))

    def build() -> Plan:
        name = f"sort_warps<{source.ctype(job.dtype)}, {each}, {lanes}>"
        kernel = source.kernel("sort/warp.cu", name, **Rows.define())
        args = (job.x, job.values, job.indices, r.pack())
        return job.plan([Step(kernel, (blocks,), (THREADS,), args)])

    why = f"{blocks} blocks, {r.n} in a row"
    return [Candidate(f"{lanes} lanes per row, {each} elements each", time, why, build)]


# ---- rows of a block ---------------------------------------------------------------------------
def block_shared(tile: Tile, size: int) -> int:
    """Bytes of dynamic shared memory of `sort_blocks`."""
    return tile.size * (size + 2)


def _fixed(tile: Tile) -> int:
    """Bytes of static shared memory: the counts of digits."""
    return (tile.warps + 2) * BINS * 4 + 128


def block_tile(job: Job) -> Tile | None:
    """The smallest block that a row fits; None if it fits none."""
    size = int(job.dtype.itemsize)
    room = job.gpu.shared_per_block - 1024
    fits = (t for t in BLOCKS if t.size >= job.rows.n)
    return next((t for t in fits if block_shared(t, size) + _fixed(t) <= room), None)


def block_time(job: Job, tile: Tile) -> float:
    """Modelled seconds of a block per row, without access to global memory."""
    size = int(job.dtype.itemsize)
    held = model.resident(job.gpu, 32 * tile.warps, block_shared(tile, size) + _fixed(tile))
    steps = size * (tile.items * H200.digit + H200.bins)
    busy = model.busy(job.gpu, job.rows.rows, tile.warps, held, steps)
    return max(busy, size * H200.pass_latency) + H200.latency


def block_step(job: Job, tile: Tile, keys: Argument = None, indices: Argument = None) -> Step:
    """The launch that sorts rows of x, or of pairs of a key and an index."""
    name = f"sort_blocks<{source.ctype(job.dtype)}, {tile.warps}, {tile.items}>"
    kernel = source.kernel("sort/block.cu", name, **Rows.define())
    args = (job.x, keys, indices, job.values, job.indices, job.rows.pack())
    shared = block_shared(tile, int(job.dtype.itemsize))
    return Step(kernel, (job.rows.rows,), (32 * tile.warps,), args, shared)


def _blocks(job: Job) -> list[Candidate]:
    tile = block_tile(job)
    if tile is None or job.rows.n <= 64:
        return []
    time = job.gpu.launch + max(_io(job, False), block_time(job, tile)) + H200.latency / 2
    why = f"{job.rows.rows} blocks of {32 * tile.warps} threads"
    name = f"block per row, {tile.warps} warps x {tile.items}"
    return [Candidate(name, time, why, lambda: job.plan([block_step(job, tile)]))]


# ---- long rows ---------------------------------------------------------------------------------
def _passes(job: Job) -> list[Candidate]:
    if job.rows.n <= BLOCKS[0].size:
        return []
    return [_of_tile(job, tile) for tile in PASSES]


def _of_tile(job: Job, tile: Tile) -> Candidate:
    r, size = job.rows, int(job.dtype.itemsize)
    tiles = cdiv(r.n, tile.size)
    blocks, gpu = r.rows * tiles, job.gpu
    shared = tile.size * max(size, 4)
    held = model.resident(gpu, 32 * tile.warps, shared + _fixed(tile))
    digit = H200.pass_digit * (H200.large_tile if tile.warps > PASSES[0].warps else 1)
    steps = tile.items * digit + H200.bins
    waiting = H200.latency + min(tiles, held * gpu.sms) * H200.look_back
    wide = size + (4 if job.indices is not None else 0)
    between = model.moved(gpu, 2 * (size - 1) * r.rows * r.n * wide)
    busy = size * (model.busy(gpu, blocks, tile.warps, held, steps) + waiting)
    clear = H200.clear + 4 * size * blocks * BINS / H200.clear_rate
    busy = max(_io(job, False) + between, busy)
    busy += model.moved(gpu, r.rows * r.n * size) + H200.latency
    # The host makes launches while the GPU runs those before.
    time = max((size + 1) * gpu.launch + clear, busy)
    name = f"{size} radix passes, {tile.warps} warps x {tile.items}"
    why = f"{blocks} tiles"
    return Candidate(name, time, why, functools.partial(_radix, job, tile, tiles))


def _radix(job: Job, tile: Tile, tiles: int) -> Plan:
    r, size, gpu = job.rows, int(job.dtype.itemsize), job.gpu
    wide = r.n >= SHORT_STATUS
    word = 8 if wide else 4
    counts, states = r.rows * size * BINS * 4, r.rows * tiles * BINS * word
    cleared = job.zeros + counts + 64 + size * states
    zeros = Buffer((cleared // 4,), torch.int32, zeroed=True)
    indexed, moves = job.indices is not None, min(2, size - 1)
    keys, order = Buffer((r.rows * r.n,), KEYS[size]), Buffer((r.rows * r.n,), torch.int32)
    scratch: Sequence[Buffer] = (zeros, *((keys, order) if indexed else (keys,)) * moves)
    numbers = iter(range(job.free + 1, job.free + len(scratch)))
    buffers = [
        Pointer(next(numbers)) if i // 2 < moves and (i % 2 == 0 or indexed) else None
        for i in range(4)
    ]
    at, ctype = Pointer(job.free, job.zeros), source.ctype(job.dtype)
    parts = max(1, min(cdiv(8 * gpu.sms, r.rows), cdiv(r.n, 4096)))
    count = source.kernel("sort/radix.cu", f"count_digits<{ctype}>", **Rows.define())
    steps = [Step(count, (r.rows * parts,), (256,), (job.x, at, r.pack(), parts))]
    for i in range(size):
        last, kind = i == size - 1, "unsigned long long" if wide else "unsigned"
        words = (ctype, kind, last, indexed, tile.warps, tile.items)
        kernel = source.kernel(
            "sort/radix.cu", source.template("move_tiles", *words), **Rows.define()
        )
        tickets = at._replace(offset=at.offset + counts)
        status = at._replace(offset=tickets.offset + 64 + i * states)
        args = (job.x, job.values, job.indices, *buffers, at, status, tickets, r.pack(), tiles, i)
        shared = tile.size * max(size, 4)
        steps.append(Step(kernel, (r.rows * tiles,), (32 * tile.warps,), args, shared))
    return job.plan(steps, scratch)
