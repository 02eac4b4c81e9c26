"""Plans single-precision convolutions of 3 x 3 taps by Winograd's algorithm."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable

import torch

from weft.kernels import cdiv
from weft.ops import source
from weft.ops.choose import Candidate
from weft.ops.conv.implicit import wide
from weft.ops.conv.job import Job, Tensor
from weft.ops.gemm.product import Operand, Product
from weft.ops.gemm.tiled import tiled
from weft.ops.plan import Argument, Buffer, Plan, Pointer, Step

PLACES = 36
"""Products of a tile of 4 x 4 results: each is a matrix product of its own."""
WORKSPACE = 2**30
"""The most bytes of scratch. The transformed tiles are 2.25 times as large as their images."""
ROWS = 65535
"""The most blocks along y."""


def applies(job: Job) -> bool:
    """True for filters of 3 x 3 taps with stride 1, without dilation and groups."""
    g = job.geometry
    return (g.r, g.s) == (3, 3) and g.stride == g.dilation == (1, 1) and g.groups == 1


def _tiles(
    x: Tensor, size: tuple[int, int, int, int], over: tuple[int, int],
    pad: tuple[int, int] = (0, 0), vectors: bool = False,
) -> tuple[int, int, bytes]:  # fmt: skip
    """(tiles of the batch, the same as whole vectors, the struct Tiles of winograd.cu).

    size  of x, as [n, c, h, w]
    over  rows and columns of results that the tiles cover
    """
    n, c, h, w = size
    down, across = cdiv(over[0], 4), cdiv(over[1], 4)
    count = n * down * across
    padded = cdiv(count, 4) * 4
    made = struct.pack(
        "<10i4q", c, h, w, *pad, down, across, count, padded, vectors, *x.images.strides
    )
    return count, padded, made


def _over_tiles(kernel: str, args: tuple[Argument, ...], count: int, channels: int) -> Step:
    made = source.kernel("conv/winograd.cu", kernel)
    return Step(made, (cdiv(count, 128), min(channels, ROWS)), (128,), args)


def _over_filters(kernel: str, job: Job, *pointers: Pointer) -> Step:
    g = job.geometry
    made = source.kernel("conv/winograd.cu", kernel)
    return Step(made, (cdiv(g.k * g.c, 128),), (128,), (*pointers, g.k, g.c))


def _candidates(
    job: Job, product: Product, sizes: tuple[int, ...], moved: int, most: int,
    build: Callable[[Callable[[], Plan]], Plan],
) -> list[Candidate]:  # fmt: skip
    """Candidates for a product between transforms that move `moved` floats in three launches."""
    if 4 * sum(sizes) > WORKSPACE:
        return []
    more = job.cost + 3 * job.gpu.launch + 4 * moved / job.gpu.bandwidth
    return [
        Candidate(f"winograd {c.name}", c.cost + more, c.why, functools.partial(build, c.build))
        for c in tiled(product, job.gpu, most)
    ]


def windows(job: Job, back: bool, most: int = 4) -> list[Candidate]:
    """Candidates of the forward pass, or of the backward pass to the data."""
    if not applies(job):
        return []
    g = job.geometry
    read, written = (g.y, g.x) if back else (g.x, g.y)
    rows, depth = written[1], read[1]
    pad = (2 - g.pad[0], 2 - g.pad[1]) if back else g.pad
    count, padded, tiles = _tiles(job.first, read, written[2:], pad)
    vectors = wide(job, back) and written[3] % 4 == 0
    results = _tiles(job.result, written, written[2:], vectors=vectors)[2]
    sizes = (PLACES * depth * padded, PLACES * depth * rows, PLACES * rows * padded)
    places = tuple(job.place(i) for i in range(3))
    product = Product(
        PLACES, rows, padded, depth,
        Operand(places[1], 1, rows, rows * depth, 16),
        Operand(places[0], 1, padded, depth * padded, 16),
        None, padded, 1, 0, Buffer((sizes[2],), torch.float32), inputs=places[2].number,
    )  # fmt: skip

    def build(multiply: Callable[[], Plan]) -> Plan:
        made = multiply()
        back_name = str(back).lower()
        return job.plan(
            _over_tiles("from_tiles<Pixels>", (job.first.pointer, places[0], tiles), padded, depth),
            _over_filters(f"from_filters<{back_name}>", job, job.second.pointer, places[1]),
            *made.steps,
            _over_tiles(
                "to_tiles", (places[2], job.bias, job.result.pointer, results), count, rows
            ),
            scratch=(*(Buffer((s,), torch.float32) for s in sizes), *made.scratch),
        )

    moved = job.first.layout.numel + job.result.layout.numel + sum(sizes)
    return _candidates(job, product, sizes, moved, most, build)


def gradients(job: Job, most: int = 4) -> list[Candidate]:
    """Candidates of the backward pass to the weight."""
    if not applies(job):
        return []
    g = job.geometry
    dy, x = job.first, job.second
    count, padded, dy_tiles = _tiles(dy, g.y, (g.p, g.q))
    x_tiles = _tiles(x, g.x, (g.p, g.q), g.pad)[2]
    sizes = (PLACES * g.k * padded, PLACES * g.c * padded, PLACES * g.k * g.c)
    places = tuple(job.place(i) for i in range(3))
    product = Product(
        PLACES, g.k, g.c, count,
        Operand(places[0], padded, 1, g.k * padded, 16),
        Operand(places[1], padded, 1, g.c * padded, 16),
        None, g.c, 1, 0, Buffer((sizes[2],), torch.float32), inputs=places[2].number,
    )  # fmt: skip

    def build(multiply: Callable[[], Plan]) -> Plan:
        made = multiply()
        return job.plan(
            _over_tiles("from_tiles<Gradients>", (dy.pointer, places[0], dy_tiles), padded, g.k),
            _over_tiles("from_tiles<Pixels>", (x.pointer, places[1], x_tiles), padded, g.c),
            *made.steps,
            _over_filters("to_filters", job, places[2], job.result.pointer),
            scratch=(*(Buffer((s,), torch.float32) for s in sizes), *made.scratch),
        )

    moved = dy.layout.numel + x.layout.numel + sum(sizes)
    return _candidates(job, product, sizes, moved, most, build)
