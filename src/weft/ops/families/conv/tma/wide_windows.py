"""Plan convolutions of few channels by boxes: columns and rows of a window become 64 channels."""

from __future__ import annotations

from dataclasses import dataclass, replace

from weft.kernels import cdiv
from weft.kernels.structs import Int, LongLong, Struct
from weft.ops.core import source
from weft.ops.core.plan import Argument, Buffer, Pointer, Step
from weft.ops.families.conv.geometry import Geometry, Images
from weft.ops.families.conv.job import ConvJob, Tensor
from weft.ops.families.conv.pack import Packed
from weft.ops.families.conv.tma.boxes import CHUNK

ROOM = 16
"""Bytes that columns begin at multiples of, for tensor maps."""


@dataclass(frozen=True)
class WideWindows(Struct):
    """Images and filters of few channels: see wide_windows.cu. Strides are in elements."""

    batch: Int
    C: Int
    H: Int
    W: Int
    K: Int
    R: Int
    S: Int
    pad_h: Int
    pad_w: Int
    rows: Int
    padded: Int
    groups: Int
    filter_groups: Int
    pitch: Int
    image: LongLong
    channel: LongLong
    row: LongLong
    column: LongLong
    filter: LongLong
    filter_channel: LongLong
    filter_row: LongLong
    filter_column: LongLong


@dataclass(frozen=True)
class Widened:
    """A convolution of few channels as one of 64.

    rows     of a window that are channels
    padded   channels of a pixel
    columns  of an image in memory
    geometry of the convolution that the kernels compute
    """

    job: ConvJob
    rows: int
    padded: int
    columns: int
    geometry: Geometry

    @property
    def pitch(self) -> int:
        """Elements of a group of rows."""
        return self.columns * self.rows * self.padded

    @property
    def size(self) -> int:
        """Elements of the images."""
        return self.geometry.n * self.geometry.h * self.pitch

    @property
    def cost(self) -> float:
        gpu = self.job.gpu
        return gpu.launch + 4 * self.size / gpu.bandwidth

    def images(self, place: Pointer) -> Packed:
        """The images at this place."""
        column = self.job.geometry.stride[1] * self.rows * self.padded
        strides = (self.geometry.h * self.pitch, 1, self.pitch, column)
        return Packed(place, Images(strides, ROOM), CHUNK, place, self.size)

    def filters(self, place: Pointer) -> Packed:
        """The filters at this place."""
        g = self.geometry
        return Packed(place, Images((0, 0, 0, 0), ROOM), CHUNK, place, g.k * g.r * CHUNK)

    def buffer(self, t: Packed) -> Buffer:
        return Buffer((t.size,), self.job.out.dtype)

    def _struct(self, x: Tensor, weight: Images) -> bytes:
        g, virtual = self.job.geometry, self.geometry
        sn, sc, sh, sw = x.images.strides
        return WideWindows(
            g.n, g.c, g.h, g.w, g.k, g.r, g.s, *g.pad, self.rows, self.padded, virtual.h,
            virtual.r, self.pitch, sn, sc, sh, sw, *weight.strides,
        ).pack()  # fmt: skip

    def widen(self, x: Tensor, to: Packed, weight: Tensor | None, filters: Packed | None) -> Step:
        """The launch that makes the images, and the filters of a forward pass."""
        g = self.geometry
        name = source.template("widen", source.ctype(self.job.out.dtype), self.rows, self.padded)
        kernel = source.kernel("conv/wide_windows.cu", name, **WideWindows.define())
        across = max(self.pitch, g.r * CHUNK if filters else 0)
        lines = g.n * g.h + (g.k if filters else 0)
        args: tuple[Argument, ...] = (
            x.pointer,
            weight.pointer if weight else None,
            to.pointer,
            filters.pointer if filters else None,
            self._struct(x, weight.images if weight else Images((0, 0, 0, 0), ROOM)),
        )
        return Step(kernel, (cdiv(across, 256 * 8), lines), (256,), args, early=True)

    def narrow(self, parts: Pointer, count: int) -> Step:
        """The launch that adds parts of a gradient of filters."""
        name = f"narrow_parts<{source.ctype(self.job.out.dtype)}>"
        kernel = source.kernel("conv/wide_windows.cu", name, **WideWindows.define())
        size = self.job.result.layout.numel
        problem = self._struct(self.job.second, Images((0, 0, 0, 0), ROOM))
        args = (parts, self.job.result.pointer, count, problem)
        return Step(kernel, (cdiv(size, 256),), (256,), args, early=True)


def widened(job: ConvJob) -> Widened | None:
    """The convolution as one of 64 channels; None if it has too many channels, or wide filters."""
    g = job.geometry
    if g.dilation != (1, 1) or g.groups > 1:
        return None
    for rows, padded in ((2, 4), (1, 4), (1, 8)):
        columns = CHUNK // (rows * padded)
        step = g.stride[1] * rows * padded * 2
        if g.c > padded or g.s > columns or step % ROOM or g.stride[0] % rows:
            continue
        groups = cdiv((g.p - 1) * g.stride[0] + g.r, rows)
        width = (g.q - 1) * g.stride[1] + columns
        width += width * rows * padded * 2 % ROOM // (rows * padded * 2)
        virtual = replace(
            g, c=CHUNK, h=groups, w=g.q, r=cdiv(g.r, rows), s=1, pad=(0, 0),
            stride=(g.stride[0] // rows, 1),
        )  # fmt: skip
        if g.n * groups + g.k < 2**16:
            return Widened(job, rows, padded, width, virtual)
    return None
