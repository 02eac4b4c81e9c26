"""The 128 bytes of a tensor map, as the driver encodes it: where each field is, and its values."""

from __future__ import annotations

from typing import NamedTuple

MAP_BYTES, MAP_ALIGN = 128, 64
MAX_RANK = 5


class MapFields:
    """Byte offsets; `CONTROL` is a word of bit fields."""

    ADDRESS, CONTROL, STRIDES, HIGH_STRIDES = 0, 8, 12, 28
    DIMS, STEPS, BOX = 32, 52, 55
    # im2col: the corners of the pixels' box, channels and pixels, in the place of the box.
    NBYTES, ALIGNMENT = 64, 72


class ControlBits:
    """The lowest bit of each field of `MapFields.CONTROL`."""

    MODE, RANK, TYPE, INTERLEAVE, SWIZZLE, FILL, L2, LARGE = 0, 4, 7, 11, 13, 15, 17, 21


class ElementType(NamedTuple):
    """A type of elements.

    code    its number in a map and in `tensormap.replace`
    driver  its number in CUtensorMapDataType
    fill    the bits of the NaN that fills what is outside a tensor; None for integers
    """

    name: str
    code: int
    driver: int
    size: int
    fill: int | None = None


TYPES = (
    ElementType("u8", 0, 0, 1),
    ElementType("u16", 1, 1, 2),
    ElementType("u32", 2, 2, 4),
    ElementType("s32", 3, 3, 4),
    ElementType("u64", 4, 4, 8),
    ElementType("s64", 5, 5, 8),
    ElementType("f16", 6, 6, 2, 0x7FF7),
    ElementType("f32", 7, 7, 4, 0x7FF7FFFF),
    ElementType("f32.ftz", 8, 10, 4, 0x7FF7FFFF),
    ElementType("f64", 9, 8, 8, 0x7FF7FFFFFFFFFFFF),
    ElementType("bf16", 10, 9, 2, 0x7FF7),
    ElementType("tf32", 11, 11, 4, 0x7FF7FFFF),
    ElementType("tf32.ftz", 12, 12, 4, 0x7FF7FFFF),
)
"""All types, at the index of their code."""

SWIZZLE_SPANS = (16, 32, 64, 128)
"""Bytes within which a swizzle exchanges units of 16, by its number; 16: none."""
