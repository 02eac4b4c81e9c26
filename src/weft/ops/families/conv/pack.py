"""Plan the packing of tensors for tensor cores: channels innermost, in whole 16-byte vectors."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.plan import Argument, Buffer, Pointer, Step
from weft.ops.families.conv.geometry import Images
from weft.ops.families.conv.job import ConvJob, Tensor

NONE = struct.pack("<9i4x4q", *[0] * 13)


class Packed(NamedTuple):
    """A tensor in the order of the kernels.

    padded  channels of a group in memory
    size    elements of the memory that it is packed into; 0 if it is read as it is
    blocks  of the launch that packs it
    struct  its description for that launch
    """

    pointer: Pointer
    images: Images
    padded: int
    source: Pointer
    size: int = 0
    blocks: int = 0
    struct: bytes = b""


@dataclass(frozen=True)
class Packing:
    """The tensors of a pass, and the launch that packs them."""

    job: ConvJob
    images: tuple[Packed, ...]
    weights: Packed | None = None
    back: bool = False

    @property
    def all(self) -> tuple[Packed, ...]:
        return (*self.images, *((self.weights,) if self.weights else ()))

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        dtype = self.job.out.dtype
        return tuple(Buffer((t.size,), dtype) for t in self.all if t.size)

    @property
    def cost(self) -> float:
        moved = 2 * sum(t.size for t in self.all) * int(self.job.out.dtype.itemsize)
        return self.job.gpu.launch + moved / self.job.gpu.bandwidth if moved else 0.0

    def steps(self) -> tuple[Step, ...]:
        """The launch; this compiles its kernel."""
        blocks = sum(t.blocks for t in self.all)
        if not blocks:
            return ()
        pairs = [_pair(t) for t in (*self.images, None)[:2]]
        args: list[Argument] = [a for pair in pairs for a in pair[:2]]
        args += _pair(self.weights)[:2]
        none = struct.pack("<5i4x3q", *[0] * 8)
        last = self.weights.struct if self.weights and self.weights.size else none
        args += [pairs[0][2], pairs[1][2], last]
        name = f"pack<{source.ctype(self.job.out.dtype)}, {str(self.back).lower()}>"
        kernel = source.kernel("conv/pack.cu", name)
        return (Step(kernel, (blocks,), (256,), tuple(args), early=True),)


def _pair(t: Packed | None) -> tuple[Argument, Argument, bytes]:
    if t is None or not t.size:
        return None, None, NONE
    return t.source, t.pointer, t.struct


def vector(job: ConvJob) -> int:
    """Elements of 16 bytes."""
    return 16 // int(job.out.dtype.itemsize)


def images(job: ConvJob, x: Tensor, shape: tuple[int, int, int, int], place: Pointer) -> Packed:
    """x, of this shape [n, c, h, w], at `place`; or where it is if its channels are vectors."""
    n, c, h, w = shape
    groups, each = job.geometry.groups, vector(job)
    channels, pixels = c // groups, h * w
    sn, sc, sh, sw = x.images.strides
    aligned = x.images.aligned == 16
    strides = [s for s, size in ((sn, n), (sh, h), (sw, w)) if size > 1]
    if sc == 1 and channels % each == 0 and aligned and all(s % each == 0 for s in strides):
        return Packed(x.pointer, x.images, channels, x.pointer)
    padded = cdiv(channels, each) * each
    pixel = groups * padded
    tiles = (cdiv(pixels, 256 if padded == each else 64), cdiv(padded, 8 * each))
    blocks = n * groups * tiles[0] * tiles[1]
    dense = (w == 1 or sw == 1) and (h == 1 or sh == w)
    lengths = (pixels, sn, sc) if dense and aligned else (1,)
    vectors = next(v for v in (each, each // 2, 1) if all(length % v == 0 for length in lengths))
    if padded == each:  # a thread packs all channels of a pixel
        vectors = 0
    made = struct.pack(
        "<9i4x4q", blocks, *tiles, groups, channels, padded, pixels, w, vectors, sn, sc, sh, sw
    )
    strides_made = (pixels * pixel, 1, w * pixel, pixel)
    size = n * pixels * pixel
    return Packed(place, Images(strides_made, 16), padded, x.pointer, size, blocks, made)


def weights(job: ConvJob, padded: int, back: bool, place: Pointer) -> Packed:
    """The weights as [group][row][tap][padded], for rows of target channels."""
    g, w = job.geometry, job.second
    k, c = g.k // g.groups, g.c // g.groups
    sk, sc, sh, sw = w.images.strides
    tap = sw if g.s > 1 else sh if g.r > 1 else 1
    as_is = not back and sc == 1 and padded == c and w.images.aligned == 16
    if as_is and job.out.dtype.itemsize == 2 and (g.taps == 1 or tap == c) and sk == c * g.taps:
        return Packed(w.pointer, w.images, padded, w.pointer)
    size = g.groups * (c if back else k) * g.taps * padded
    vectors = size // vector(job)
    made = struct.pack("<5i4x3q", k, c, g.taps, padded, vectors, sk, sc, tap)
    return Packed(place, w.images, padded, w.pointer, size, cdiv(vectors, 256), made)
