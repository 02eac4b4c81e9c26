"""The 128 bytes of a tensor map, as the driver encodes it: where each field is, and its values."""

from __future__ import annotations

from typing import NamedTuple

MAP_BYTES, MAP_ALIGN = 128, 64
MAX_RANK, LEAST_SLICED = 5, 3
"""Dimensions of a map at most, and those of an interleaved or im2col map at least."""


class MapFields:
    """Byte offsets; `CONTROL` is a word of bit fields."""

    ADDRESS, CONTROL, STRIDES, HIGH_STRIDES = 0, 8, 12, 28
    DIMS, STEPS, BOX = 32, 52, 55
    # In the place of the box, im2col has the channels, two corners of 16 bits, and the pixels.
    CHANNELS, LOWER, UPPER, PIXELS = 55, 56, 58, 60
    NBYTES, ALIGNMENT = 64, 72


class ControlBits:
    """The lowest bit of each field of `MapFields.CONTROL`."""

    MODE, RANK, TYPE, INTERLEAVE, SWIZZLE, FILL, TF32, L2 = 0, 4, 7, 11, 13, 15, 16, 17
    HIGH_SWIZZLE = 22


CORNER_BITS = {3: 16, 4: 8, 5: 5}
"""Bits of each number of a corner, by the rank; the innermost dimension is in the lowest."""
FILL_NAN = 0x7FF7
"""The 16 bits that fill what is outside a tensor of floating-point numbers of any size."""


class ElementType(NamedTuple):
    """A type of elements.

    code    its number in `tensormap.replace`; that of a map is `bits`
    driver  its number in CUtensorMapDataType
    rounds  a load rounds the numbers to tf32
    """

    name: str
    code: int
    driver: int
    size: int
    rounds: bool = False

    @property
    def bits(self) -> int:
        """Its number in a map, where `ControlBits.TF32` is another bit."""
        return self.code - TF32.code + F32.code if self.rounds else self.code

    @property
    def is_float(self) -> bool:
        return "f" in self.name


TYPES = (
    ElementType("u8", 0, 0, 1),
    ElementType("u16", 1, 1, 2),
    ElementType("u32", 2, 2, 4),
    ElementType("s32", 3, 3, 4),
    ElementType("u64", 4, 4, 8),
    ElementType("s64", 5, 5, 8),
    ElementType("f16", 6, 6, 2),
    ElementType("f32", 7, 7, 4),
    ElementType("f32.ftz", 8, 10, 4),
    ElementType("f64", 9, 8, 8),
    ElementType("bf16", 10, 9, 2),
    ElementType("tf32", 11, 11, 4, rounds=True),
    ElementType("tf32.ftz", 12, 12, 4, rounds=True),
)
"""All types, at the index of their code."""
F32, TF32 = TYPES[7], TYPES[11]

SWIZZLE_SPANS = (16, 32, 64, 128)
"""Bytes within which a swizzle exchanges units of 16, by its number; 16: none."""
INTERLEAVES = (0, 16, 32)
"""Bytes of a slice of channels, by the number of an interleaved layout; 0: it is not one."""
