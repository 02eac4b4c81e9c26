"""Encodes tensor maps as the driver does, for the simulated GPU."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from weft.device.tensor_map_layout import (
    CORNER_BITS,
    INTERLEAVES,
    MAP_BYTES,
    SWIZZLE_SPANS,
    TYPES,
    ControlBits,
    ElementType,
    MapFields,
)
from weft.records import dataclass

DRIVER_TYPES = {t.driver: t for t in TYPES}


@dataclass(frozen=True, slots=True)
class MapRequest:
    """The arguments of cuTensorMapEncodeTiled, sizes from the innermost dimension on.

    lower, upper, channels, pixels   those of cuTensorMapEncodeIm2col, in the place of `box`
    """

    kind: ElementType
    address: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    steps: tuple[int, ...]
    box: tuple[int, ...] = ()
    interleave: int = 0
    swizzle: int = 0
    l2: int = 0
    nan: bool = False
    lower: tuple[int, ...] | None = None
    upper: tuple[int, ...] = ()
    channels: int = 0
    pixels: int = 0

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def nbytes(self) -> int:
        """Bytes of a box in shared memory: of an interleaved tensor, one slice of channels."""
        slice_bytes = INTERLEAVES[self.interleave]
        if self.lower is not None:
            return self.pixels * (slice_bytes or self.channels * self.kind.size)
        counts = [-(-size // step) for size, step in zip(self.box, self.steps, strict=True)]
        if slice_bytes:
            counts[-2] = 1
            return prod(counts) * slice_bytes
        # Without interleave, the innermost dimension has no step.
        return prod(counts[1:]) * self.box[0] * self.kind.size

    @property
    def noted_bytes(self) -> int:
        """The size that the driver notes and limits; it rounds down where a copy rounds up."""
        if self.lower is not None:
            return self.channels * self.pixels * self.kind.size
        nbytes = self.kind.size
        for size, step in zip(self.box, self.steps, strict=True):
            nbytes *= size // step
        return nbytes


def encode(r: MapRequest) -> bytes:
    """The 128 bytes of a map; the request is valid (`tensor_map_limits`)."""
    words = bytearray(MAP_BYTES)
    control = _control(r)
    _put(words, MapFields.ADDRESS, 8, r.address)
    _put(words, MapFields.CONTROL, 4, control)
    high = 0
    for i, stride in enumerate(r.strides):
        _put(words, MapFields.STRIDES + 4 * i, 4, (stride >> 4) & 0xFFFFFFFF)
        high |= (stride >> 36 & 15) << (4 * i)
    _put(words, MapFields.HIGH_STRIDES, 2, high)
    for i, dim in enumerate(r.dims):
        _put(words, MapFields.DIMS + 4 * i, 4, dim - 1)
    _put(words, MapFields.STEPS, 2, sum((s - 1) << (3 * i) for i, s in enumerate(r.steps)))
    if r.lower is None:
        for i, size in enumerate(r.box):
            words[MapFields.BOX + i] = size - 1
    else:
        words[MapFields.CHANNELS] = r.channels - 1
        _put(words, MapFields.LOWER, 2, _corner(r.lower))
        _put(words, MapFields.UPPER, 2, _corner(r.upper))
        _put(words, MapFields.PIXELS, 2, r.pixels - 1)
    _put(words, MapFields.NBYTES, 4, r.noted_bytes)
    _put(words, MapFields.ALIGNMENT, 4, SWIZZLE_SPANS[r.swizzle] * (8 if r.swizzle else 1))
    return bytes(words)


def _control(r: MapRequest) -> int:
    fields: Sequence[tuple[int, int]] = (
        (ControlBits.RANK, r.rank - 1),
        (ControlBits.TYPE, r.kind.bits),
        (ControlBits.TF32, int(r.kind.rounds)),
        (ControlBits.INTERLEAVE, r.interleave),
        (ControlBits.SWIZZLE, r.swizzle),
        (ControlBits.FILL, int(r.nan)),
        (ControlBits.L2, r.l2),
        (ControlBits.MODE, int(r.lower is not None)),
    )
    return sum(value << at for at, value in fields)


def _corner(numbers: Sequence[int]) -> int:
    """The numbers of a corner as 16 bits."""
    width = CORNER_BITS[len(numbers) + 2]
    mask = (1 << width) - 1
    return sum((x & mask) << (width * i) for i, x in enumerate(numbers))


def _put(words: bytearray, at: int, count: int, value: int) -> None:
    words[at : at + count] = value.to_bytes(count, "little")
