"""Plans the packing of tensors for tensor cores: channels innermost, in whole 16-byte vectors."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops import source
from weft.ops.conv.geometry import Images
from weft.ops.conv.job import Job, Tensor
from weft.ops.plan import Buffer, Pointer, Step


class Packed(NamedTuple):
    """A tensor in the order of the kernels.

    padded   channels of a group in memory
    buffers  the memory that it is packed into; none if it is read as it is
    steps    makes the launch that packs it, which compiles its kernel
    cost     modelled seconds
    """

    pointer: Pointer
    images: Images
    padded: int
    buffers: tuple[Buffer, ...] = ()
    steps: Callable[[], tuple[Step, ...]] = tuple
    cost: float = 0.0


def vector(job: Job) -> int:
    """Elements of 16 bytes."""
    return 16 // int(job.out.dtype.itemsize)


def images(job: Job, x: Tensor, shape: tuple[int, int, int, int], place: Pointer) -> Packed:
    """x, of this shape [n, c, h, w], at `place`; or where it is if its channels are vectors."""
    n, c, h, w = shape
    groups, each = job.geometry.groups, vector(job)
    channels = c // groups
    sn, sc, sh, sw = x.images.strides
    strides = [s for s, size in ((sn, n), (sh, h), (sw, w)) if size > 1]
    whole = all(s % each == 0 for s in strides) and x.images.aligned == 16
    if sc == 1 and channels % each == 0 and whole:
        return Packed(x.pointer, x.images, channels)
    padded = cdiv(channels, each) * each
    pixel = groups * padded

    def steps() -> tuple[Step, ...]:
        name = f"pack_images<{source.ctype(x.layout.dtype)}>"
        problem = struct.pack("<5i4x4q", groups, channels, padded, h * w, w, sn, sc, sh, sw)
        grid = (cdiv(h * w, 64), groups * cdiv(padded, 32), min(n, 65535))
        kernel = source.kernel("conv/pack.cu", name)
        return (Step(kernel, grid, (256,), (x.pointer, place, problem, n)),)

    moved = (x.layout.numel + n * h * w * pixel) * x.layout.itemsize
    made = Images((h * w * pixel, 1, w * pixel, pixel), 16)
    cost = job.gpu.launch + moved / job.gpu.bandwidth
    return Packed(place, made, padded, (Buffer((n * h * w * pixel,), x.layout.dtype),), steps, cost)


def weights(job: Job, padded: int, back: bool, place: Pointer) -> Packed:
    """The weights as [group][row][tap][padded], for rows of target channels."""
    g, w = job.geometry, job.second
    k, c = g.k // g.groups, g.c // g.groups
    size = g.groups * (c if back else k) * g.taps * padded

    def steps() -> tuple[Step, ...]:
        name = f"pack_weights<{source.ctype(w.layout.dtype)}, {str(back).lower()}>"
        kernel = source.kernel("conv/pack.cu", name)
        args = (w.pointer, place, k, c, g.taps, padded, size)
        return (Step(kernel, (cdiv(size, 256),), (256,), args),)

    cost = job.gpu.launch + (w.layout.numel + size) * w.layout.itemsize / job.gpu.bandwidth
    return Packed(place, w.images, padded, (Buffer((size,), w.layout.dtype),), steps, cost)
