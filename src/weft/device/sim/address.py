"""Addresses and other 64-bit values of a warp, in as few scalars as their lanes allow."""

from __future__ import annotations

from weft.device.sim.analyse.form import ZERO, row_length
from weft.device.sim.layout import Space
from weft.ir import Val
from weft.records import dataclass

SPACES = {
    "global": Space.GLOBAL, "shared": Space.SHARED, "shared::cta": Space.SHARED,
    "shared::cluster": Space.CLUSTER,
    "local": Space.LOCAL, "param": Space.PARAM, "const": Space.CONST, "": Space.GENERIC,
    "generic": Space.GENERIC,
}  # fmt: skip


def space_of(word: str, clusters: bool) -> int:
    """The state space that a word means; without `clusters`, a block has no peers."""
    space = SPACES[word]
    return Space.SHARED if space == Space.CLUSTER and not clusters else space


@dataclass(slots=True)
class Stripes:
    """base + off[lane] + step * rows[lane], in 32 bits: a value of the striped form."""

    base: Val
    step: Val
    off: tuple[int, ...]
    rows: tuple[int, ...]

    def vector(self) -> Val:
        """All lanes."""
        b = self.base.builder
        return self.base + b.lanes("i32", self.off) + self.step * b.lanes("i32", self.rows)

    def at(self, lane: int) -> Val:
        """The value of one lane."""
        value, off, row = self.base, self.off[lane], self.rows[lane]
        value = value + off if off else value
        return value + self.step * row if row else value


@dataclass(slots=True)
class Wide:
    """base + scale * ext(index + off[lane]); the index is a scalar, or a vector and off zero.

    With `step`, it is a scalar and striped: each lane's index has rows[lane] steps more.
    """

    base: Val
    index: Val
    off: tuple[int, ...]
    scale: int
    signed: bool
    step: Val | None = None
    rows: tuple[int, ...] = ZERO

    @property
    def stripes(self) -> Stripes | None:
        """The index, where it is striped."""
        return None if self.step is None else Stripes(self.index, self.step, self.off, self.rows)

    def lanes(self) -> Val:
        """The 32-bit index of every lane."""
        b = self.index.builder
        if self.index.lanes:
            return self.index
        if self.stripes is not None:
            return self.stripes.vector()
        if self.off == ZERO:
            return b.splat(self.index, 32)
        return self.index + b.lanes("i32", self.off)

    def extend(self, index: Val) -> Val:
        """scale * ext(index), in 64 bits."""
        # After the 32-bit addition: an index that wraps does so as on a GPU.
        wide = index.sext("i64") if self.signed else index.zext("i64")
        return wide * self.scale if self.scale != 1 else wide

    def vector(self) -> Val:
        """All lanes, exactly."""
        return self.extend(self.lanes()) + self.base

    def row_step(self) -> int | None:
        """The distance between neighbouring lanes of a row; None if it varies, or without rows."""
        x = self.stripes
        if x is None:
            return None
        length = row_length(x.rows)
        steps = {self.scale * (x.off[i + 1] - x.off[i]) for i in range(31) if (i + 1) % length}
        return steps.pop() if len(steps) == 1 else None

    def row_ends(self) -> list[tuple[Val, Val]]:
        """The values of the first and the last lane of each row."""
        x = self.stripes
        assert x is not None
        length = row_length(x.rows)

        def of(lane: int) -> Val:
            return self.extend(x.at(lane)) + self.base

        return [(of(i), of(i + length - 1)) for i in range(0, 32, length)]

    def at(self, off: int) -> Val:
        """The exact value of a lane with this index offset (a scalar index only)."""
        return self.extend(self.index + off if off else self.index) + self.base


@dataclass(slots=True)
class Address:
    """Host addresses of an access.

    off    bytes of each lane relative to `first` (None: not constant)
    first  scalar host address of the lane whose offset is 0 (the lowest)
    last   scalar host address of the highest lane, computed exactly
    exact  all lanes as `<32 x i64>`, when there is no scalar form
    wide   the sparse form, where there is one
    inside (lowest, highest) offset inside a small window, for spaces that are one
    """

    space: int
    off: tuple[int, ...] | None
    first: Val | None = None
    last: Val | None = None
    exact: Val | None = None
    wide: Wide | None = None
    inside: tuple[Val, Val] | None = None

    def shared_offsets(self) -> Val | None:
        """Each lane's offset into shared memory, where it is known to be there."""
        if self.space != Space.SHARED:
            return None
        if self.inside is not None and self.off is not None:
            start = self.inside[0].trunc("i32")
            return start.builder.splat(start, 32) + start.builder.lanes("i32", self.off)
        return self.wide.lanes() if self.wide is not None else None

    @property
    def uniform(self) -> bool:
        return self.off == ZERO

    @property
    def scalar(self) -> bool:
        return self.off is not None
