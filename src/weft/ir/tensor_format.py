"""The operand formats of tensor cores, and functions that split their bit patterns."""

from __future__ import annotations

from weft.ir.builder import Builder, Val
from weft.records import dataclass

NOTHING = -8192
"""The exponent of a sum without terms."""


@dataclass(frozen=True)
class Format:
    """A floating format in its register container.

    `unused` low bits of the container are ignored (tf32); `only_nan` formats have no infinity
    and a single NaN pattern.
    """

    name: str
    exponent: int
    mantissa: int
    container: str
    unused: int = 0
    only_nan: bool = False

    @property
    def bits(self) -> int:
        """Width of the container."""
        return int(self.container[1:])

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def lane(self) -> str:
        """The integer type that holds a sum of two exponents, zero's included."""
        return "i8" if self.exponent <= 5 else "i16"

    @property
    def zero(self) -> int:
        """The exponent given to a zero: with any other it stays below 0, where no real sum is."""
        return -60 if self.lane == "i8" else -1000

    @property
    def special(self) -> int:
        """The least magnitude pattern, without unused bits, that is not a finite number."""
        full = ((1 << self.exponent) - 1) << self.mantissa
        return full | ((1 << self.mantissa) - 1) if self.only_nan else full


FORMATS = {
    f.name: f
    for f in (
        Format("f16", 5, 10, "i16"),
        Format("bf16", 8, 7, "i16"),
        Format("tf32", 8, 10, "i32", unused=13),
        Format("f32", 8, 23, "i32"),
        Format("e4m3", 4, 3, "i8", only_nan=True),
        Format("e5m2", 5, 2, "i8"),
    )
}


def magnitude(bits: Val, fmt: Format) -> Val:
    """The pattern without its sign and its unused bits."""
    mag = bits & ((1 << (fmt.bits - 1)) - 1)
    return mag >> fmt.unused if fmt.unused else mag


def exponent(b: Builder, mag: Val, fmt: Format) -> Val:
    """The biased exponent, in the format's lanes: subnormals as the least one, zero as `zero`."""
    field = b.umax(b.resize(mag >> fmt.mantissa, fmt.lane), 1)
    return mag.eq(0).select(b.splat(b.integer(fmt.lane, fmt.zero), mag.lanes), field)


def fp8_to_half(b: Builder, bits: Val, fmt: Format) -> Val:
    """e4m3 or e5m2 patterns as `half`, exactly; NaN stays NaN."""
    wide = bits.zext("i16")
    # e5m2 is the upper byte of an f16.
    if fmt.name == "e5m2":
        return b.reinterpret(wide << 8, "half")
    mag = wide & 0x7F
    moved = ((wide & 0x80) << 8) | (mag << 7)
    # The fields are now in the places that half uses; only the biases differ, by 8.
    value = b.bits(b.reinterpret(moved, "half") * b.const("half", 256.0))
    nan = b.splat(b.integer("i16", 0x7FFF), bits.lanes)
    return b.reinterpret(mag.eq(0x7F).select(nan, value), "half")


def to_float(b: Builder, bits: Val, fmt: Format) -> Val:
    """The values as f32, exactly."""
    if fmt.container == "i8":
        return b.cast("fpext", fp8_to_half(b, bits, fmt), "float")
    if fmt.name == "f16":
        return b.cast("fpext", b.reinterpret(bits, "half"), "float")
    if fmt.name == "bf16":
        return b.reinterpret(bits.zext("i32") << 16, "float")
    return b.reinterpret(bits & -(1 << fmt.unused) if fmt.unused else bits, "float")
