"""Plan single-precision convolutions of 3 x 3 taps by Winograd's algorithm."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import torch

from weft.kernels import cdiv
from weft.kernels.structs import Int, LongLong, Struct
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Argument, Buffer, Plan, Pointer, Step
from weft.ops.families.conv.implicit import pixel_vectors
from weft.ops.families.conv.job import ConvJob, Tensor
from weft.ops.families.conv.model import WINOGRAD_REACH
from weft.ops.families.matmul import tiled
from weft.ops.families.matmul.product import Operand, Product

PLACES = 36
"""Products of a tile of 4 x 4 results: each is a matrix product of its own."""
WORKSPACE = 2**30
"""The most bytes of scratch: transformed tiles are 2.25 times as large as their images."""
ROWS = 65535
"""The most blocks along y."""
TERMS = 256
"""Channels that a product sums in a row: the transform of results multiplies rounding errors of
long sums by 5 to 20, so it adds the sums of parts of the channels."""


def applies(job: ConvJob) -> bool:
    """True for filters of 3 x 3 with stride 1, without dilation and groups."""
    g = job.geometry
    return g.r == g.s == 3 and g.stride == g.dilation == (1, 1) and g.groups == 1


@dataclass(frozen=True)
class Tiles(Struct):
    """Images as tiles of 4 x 4 results: tile (i, j) begins at row 4 i - pad_h, column 4 j - pad_w.

    The kernels of winograd.cuh take it. Strides are in elements.
    """

    channels: Int
    h: Int
    w: Int
    pad_h: Int
    pad_w: Int
    tiles_h: Int
    tiles_w: Int
    count: Int
    padded: Annotated[Int, "tiles of the batch, rounded up to whole vectors"]
    wide: Annotated[Int, "rows of tiles are 16-byte vectors"]
    parts: Annotated[Int, "sums of each product, of parts of the channels"]
    batch: LongLong
    channel: LongLong
    row: LongLong
    column: LongLong


class Grid(NamedTuple):
    """The tiles of some images: `each` of one image, `all` of them, as whole vectors `padded`."""

    down: int
    across: int
    images: int

    @property
    def each(self) -> int:
        return self.down * self.across

    @property
    def all(self) -> int:
        return self.each * self.images

    @property
    def padded(self) -> int:
        return cdiv(self.all, 4) * 4

    def packed(
        self, x: Tensor, size: tuple[int, int, int, int], pad: tuple[int, int] = (0, 0),
        vectors: bool = False, images: int | None = None, parts: int = 1,
    ) -> bytes:  # fmt: skip
        """The tiles of x, of this size, as kernels take them; the last images may be missing."""
        _, c, h, w = size
        count = self.all if images is None else self.each * images
        place = (*pad, self.down, self.across, count, self.padded, vectors, parts)
        return Tiles(c, h, w, *place, *x.images.strides).pack()


def _grid(over: tuple[int, int], images: int) -> Grid:
    """Tiles that cover so many rows and columns of results."""
    return Grid(cdiv(over[0], 4), cdiv(over[1], 4), images)


def _parts(depth: int) -> int:
    """Equal parts of the channels, of at most TERMS; one if there are none of whole vectors."""
    counts = range(cdiv(depth, TERMS), depth // 16 + 1)
    return next((n for n in counts if depth % (4 * n) == 0), 1)


class Ending(NamedTuple):
    """The kernel that turns products into results.

    args  what it takes between the products and the results
    size  of the results, as [n, c, h, w]
    """

    file: str
    kernel: str
    args: tuple[Argument, ...]
    size: tuple[int, int, int, int]


def _over_tiles(
    kernel: str, args: tuple[Argument, ...], count: int, channels: int,
    file: str = "conv/winograd.cu",
) -> Step:  # fmt: skip
    made = source.kernel(file, kernel, **Tiles.define())
    return Step(made, (cdiv(count, 128), min(channels, ROWS)), (128,), args)


def _over_filters(kernel: str, job: ConvJob, *pointers: Pointer) -> Step:
    g = job.geometry
    made = source.kernel("conv/winograd.cu", kernel, **Tiles.define())
    return Step(made, (cdiv(g.k * g.c, 128),), (128,), (*pointers, g.k, g.c))


def _candidates(
    job: ConvJob, product: Product, sizes: tuple[int, ...], moved: int, most: int,
    build: Callable[[Callable[[], Plan]], Plan], passes: int = 1,
) -> list[Candidate]:  # fmt: skip
    """Candidates for a product between transforms that move `moved` floats in all passes.

    A pass has two transforms and a product; the filters have one more transform.
    """
    if 4 * sum(sizes) > WORKSPACE:
        return []
    more = (
        job.cost
        + (1 + 2 * passes) * job.gpu.launch
        + 4 * moved / (job.gpu.bandwidth * WINOGRAD_REACH)
    )
    after = f", {passes} times" if passes > 1 else ""
    return [
        Candidate(
            f"winograd {c.name}{after}",
            passes * c.cost + more,
            c.why,
            functools.partial(build, c.build),
        )
        for c in tiled.candidates(product, job.gpu, most)
    ]


def windows(
    job: ConvJob, back: bool, most: int = 4, ending: Ending | None = None
) -> list[Candidate]:
    """Candidates of the forward pass, or of the backward pass to the data.

    ending  what follows the products, if not their transform alone; the job's result is its own
    """
    if not applies(job):
        return []
    g, size = job.geometry, PLACES
    read, written = (g.y, g.x) if back else (g.x, g.y)
    rows, depth = written[1], read[1]
    pad = (g.r - 1 - g.pad[0], g.s - 1 - g.pad[1]) if back else g.pad
    # Some images at a time where the tiles of all need too much scratch.
    room = WORKSPACE - 4 * size * rows * depth
    whole, parts = _grid(written[2:], g.n), _parts(depth)
    passes = cdiv(4 * size * (depth + rows * parts) * whole.padded, max(room, 1))
    grid = whole._replace(images=cdiv(g.n, passes))
    passes = cdiv(g.n, grid.images)
    sizes = (size * depth * grid.padded, size * depth * rows, size * parts * rows * grid.padded)
    places = tuple(job.scratch_at(i) for i in range(3))
    each = depth // parts
    product = Product(
        size * parts, rows, grid.padded, each,
        Operand(places[1], 1, rows, rows * each, 16),
        Operand(places[0], 1, grid.padded, each * grid.padded, 16),
        None, grid.padded, 1, 0, Buffer((sizes[2],), torch.float32), inputs=places[2].number,
    )  # fmt: skip
    vectors = ending is None and pixel_vectors(job, back) and written[3] % 4 == 0
    last = ending or Ending("conv/winograd.cu", "to_tiles", (job.bias,), written)

    def part(multiply: tuple[Step, ...], first: int) -> tuple[Step, ...]:
        """The images from `first` on."""
        images = min(grid.images, g.n - first)
        source, target = (
            t.pointer._replace(offset=t.pointer.offset + 4 * first * t.images.strides[0])
            for t in (job.first, job.result)
        )
        return (
            _over_tiles(
                "from_tiles<Pixels>",
                (source, places[0], grid.packed(job.first, read, pad, images=images)),
                grid.padded, depth,
            ),
            *multiply,
            _over_tiles(
                last.kernel,
                (places[2], *last.args, target,
                 grid.packed(
                     job.result, last.size, vectors=vectors, images=images, parts=parts
                 )),
                grid.all, rows, last.file,
            ),
        )  # fmt: skip

    def build(multiply: Callable[[], Plan]) -> Plan:
        made = multiply()
        name = source.template("from_filters", back)
        return job.plan(
            _over_filters(name, job, job.second.pointer, places[1]),
            *(s for first in range(0, g.n, grid.images) for s in part(made.steps, first)),
            scratch=(*(Buffer((s,), torch.float32) for s in sizes), *made.scratch),
        )

    moved = job.first.layout.numel + job.result.layout.numel
    moved += passes * (sizes[0] + sizes[2]) + sizes[1]
    return _candidates(job, product, sizes, moved, most, build, passes)


def gradients(job: ConvJob, most: int = 4) -> list[Candidate]:
    """Candidates of the backward pass to the weight."""
    if not applies(job):
        return []
    g, size = job.geometry, PLACES
    dy, x = job.first, job.second
    grid = _grid((g.p, g.q), g.n)
    sizes = (size * g.k * grid.padded, size * g.c * grid.padded, size * g.k * g.c)
    places = tuple(job.scratch_at(i) for i in range(3))
    product = Product(
        size, g.k, g.c, grid.all,
        Operand(places[0], grid.padded, 1, g.k * grid.padded, 16),
        Operand(places[1], grid.padded, 1, g.c * grid.padded, 16),
        None, g.c, 1, 0, Buffer((sizes[2],), torch.float32), inputs=places[2].number,
    )  # fmt: skip

    def read(
        name: str, t: Tensor, to: Pointer, size: tuple[int, int, int, int],
        pad: tuple[int, int] = (0, 0),
    ) -> Step:  # fmt: skip
        args = (t.pointer, to, grid.packed(t, size, pad))
        return _over_tiles(f"from_tiles<{name}>", args, grid.padded, size[1])

    def build(multiply: Callable[[], Plan]) -> Plan:
        made = multiply()
        return job.plan(
            read("Gradients", dy, places[0], g.y),
            read("Pixels", x, places[1], g.x, g.pad),
            *made.steps,
            _over_filters("to_filters", job, places[2], job.result.pointer),
            scratch=(*(Buffer((s,), torch.float32) for s in sizes), *made.scratch),
        )

    moved = dy.layout.numel + x.layout.numel + sum(sizes)
    return _candidates(job, product, sizes, moved, most, build)
