"""Lanes to and from memory at constant distances, as vectors where they are neighbours.

Nothing is checked here: `plain` has checked that every lane may be touched.
"""

from __future__ import annotations

import functools

from weft.device.sim.address import Address
from weft.device.sim.analyse.form import AFFINE, INDEXED
from weft.device.sim.layout import Space
from weft.device.sim.memory import lane_loops
from weft.device.sim.protocols import LaneArrays, Masks
from weft.ir import BITS, CONSTANT, Val
from weft.ptx.isa import decode
from weft.ptx.model import SIZES, Instruction

_FLOATS = {"i32": "float", "i64": "double"}
MANY_APART = 40
"""The limit on loads whose lanes are not contiguous: beyond it, they share a loop."""
NEAR = 3 * 64
"""Bytes from the first to the last of four lanes: farther apart, vectors touch more cache lines."""


class LaneMoves:
    """Checked loads and stores of a warp under emission."""

    def __init__(self, e: Masks, arrays: LaneArrays) -> None:
        self.e, self.arrays = e, arrays
        self._apart = -1

    def pointer(self, a: Address) -> Val:
        """The location in host memory that the lanes' offsets are relative to."""
        assert a.first is not None
        return self.e.b.pure("ptr", 0, f"inttoptr {a.first.typed} to ptr")

    def load(self, a: Address, ty: str, count: int, ordered: bool) -> list[Val]:
        """`count` elements per lane, in as few vectors as their places allow."""
        b, p, size = self.e.b, self.pointer(a), BITS[ty] // 8
        assert a.off is not None
        if a.uniform:
            flags = CONSTANT if a.space == Space.PARAM else ""
            return [self._load_one(b.at(p, i * size), ty, ordered, flags) for i in range(count)]
        if count > 1 and a.off == tuple(range(0, 32 * size * count, size * count)):
            # Aligned as one element: no more has been checked.
            whole = b.load(ty, 32 * count, p, size)
            return [b.shuffle(whole, range(i, 32 * count, count)) for i in range(count)]
        return [self._load_lanes(b.at(p, i * size), a.off, ty) for i in range(count)]

    def _load_one(self, p: Val, ty: str, ordered: bool, flags: str) -> Val:
        b = self.e.b
        # LLVM must not hoist the load out of a loop that waits for another thread.
        word = "volatile " if ordered else ""
        return b.val(ty, 0, f"load {word}{ty}, {p.typed}, align {BITS[ty] // 8}{flags}")

    def _load_lanes(self, p: Val, off: tuple[int, ...], ty: str) -> Val:
        """Lanes at constant offsets: runs of neighbours as vectors, repeats by broadcast."""
        b, size = self.e.b, BITS[ty] // 8
        for width in (32, 16, 8, 4):
            runs = [_run(off[i : i + width], size) for i in range(0, 32, width)]
            if all(r != "" for r in runs):
                parts = []
                made: dict[int, Val] = {}
                for i, r in enumerate(runs):
                    at = off[i * width]
                    if at not in made:
                        q = b.at(p, at)
                        if r == "same":
                            made[at] = b.splat(b.load(ty, 0, q, size), width)
                        else:
                            made[at] = b.load(ty, width, q, size)
                    parts.append(made[at])
                return b.concat(parts)
        if self._apart_loads() > MANY_APART:  # code for each would be too long
            data = self.arrays.buffer(1)
            lane_loops.gather(self.e, p, off, size, data)
            return b.load(ty, 32, data, 8)
        # As floats they are in vector registers from the start.
        kind = _FLOATS.get(ty, ty)
        fours = range(0, 32, 4)
        out = b.concat([self._load_apart(p, off[i : i + 4], kind, max(off) + size) for i in fours])
        return b.cast("bitcast", out, ty) if kind != ty else out

    def _load_apart(self, p: Val, off: tuple[int, ...], kind: str, end: int) -> Val:
        """Load four lanes that are not contiguous; all bytes before `end` may be read."""
        b, size = self.e.b, BITS[kind] // 8
        if size == 4 and max(off) + 16 <= end and max(off) - min(off) <= NEAR:
            # Whole vectors, of which the first elements count: fewer instructions than to load
            # elements into their lanes.
            wide = [b.load(kind, 4, b.at(p, x), size) for x in off]
            return b.concat([b.shuffle(wide[i], [0, 4], wide[i + 1]) for i in (0, 2)])
        out, single = b.poison(kind, 4), {x: b.load(kind, 0, b.at(p, x), size) for x in set(off)}
        for i, x in enumerate(off):
            out = b.insert(out, single[x], i)
        return out

    def can_store(self, a: Address, ty: str, count: int) -> bool:
        """Return whether vector stores can write the lanes in order."""
        size = BITS[ty] // 8
        off = a.off
        assert off is not None
        if a.uniform:
            return True
        if off == tuple(range(0, 32 * size * count, size * count)):
            return True
        # Distinct places cannot overlap: each is a multiple of the size of the access.
        return len(set(off)) == 32

    def store(self, a: Address, values: list[Val]) -> None:
        """One value list per lane, in as few vectors as their places allow."""
        b, p = self.e.b, self.pointer(a)
        size = values[0].bits // 8
        if a.uniform:  # The highest running lane wins.
            last = 31 - b.intrinsic("ctlz", [self.e.executing()], extra="false")
            for i, v in enumerate(values):
                b.store(b.extract(v, last) if v.lanes else v, b.at(p, i * size), size)
            return
        if a.space != Space.SHARED or self.e.executes_fully:
            self._store_all(a, values)
            return
        stored = self.stored_lanes(a, values)
        # No other host thread writes a block's shared memory, so idle lanes may store what they
        # have just loaded. In global memory that would be a race.
        b.either(
            self.e.executing().eq((1 << stored) - 1) if stored < 32 else self.e.executes_in_all(),
            lambda: self._store_first(a, values, stored),
            lambda: self._store_first(a, self._with_old(a, values), stored),
        )

    def stored_lanes(self, a: Address, values: list[Val]) -> int:
        """The number of lanes that a store must write: the active ones, rounded up."""
        size = values[0].bits // 8
        neighbours = len(values) == 1 and a.off == tuple(range(0, 32 * size, size))
        return 1 << (self.e.active_lanes - 1).bit_length() if neighbours else 32

    def _store_first(self, a: Address, values: list[Val], count: int) -> None:
        """Store the first lanes: some neighbours, or all."""
        if count == 32:
            self._store_all(a, values)
            return
        b, v = self.e.b, values[0]
        first = b.shuffle(v, range(count)) if count > 1 else b.extract(v, 0)
        b.store(first, self.pointer(a), v.bits // 8)

    def _store_all(self, a: Address, values: list[Val]) -> None:
        """All 32 lanes."""
        b, p = self.e.b, self.pointer(a)
        size, count = values[0].bits // 8, len(values)
        assert a.off is not None
        if count > 1 and a.off == tuple(range(0, 32 * size * count, size * count)):
            whole = b.concat(values)
            order = [i + 32 * j for i in range(32) for j in range(count)]
            b.store(b.shuffle(whole, order), p, size)
            return
        for j, v in enumerate(values):
            self._store_lanes(b.at(p, j * size), a.off, v)

    def _with_old(self, a: Address, values: list[Val]) -> list[Val]:
        """Replace the values of inactive lanes by their contents in memory."""
        e, b = self.e, self.e.b
        runs = e.lanes_of(e.executing())
        old = self.load(a, values[0].element, len(values), False)
        return [b.select(runs, v, o) for v, o in zip(values, old, strict=True)]

    def _store_lanes(self, p: Val, off: tuple[int, ...], v: Val) -> None:
        b, size = self.e.b, BITS[v.element] // 8
        for width in (32, 16, 8, 4):
            if all(_run(off[i : i + width], size) == "next" for i in range(0, 32, width)):
                for i in range(0, 32, width):
                    part = v if width == 32 else b.shuffle(v, range(i, i + width))
                    b.store(part, b.at(p, off[i]), size)
                return
        data = self.arrays.buffer(1)
        b.store(v, data, 8)
        lane_loops.scatter(self.e, p, off, size, data)

    def _apart_loads(self) -> int:
        """The number of loads whose lanes are not contiguous."""
        if self._apart < 0:
            self._apart = sum(
                decode(ins).row.is_load and self._is_apart(ins)
                for block in self.e.program.graph.blocks
                for ins in block.code
            )
        return self._apart

    def _is_apart(self, ins: Instruction) -> bool:
        form = self.e.program.form_of(ins.operands[1])
        if form is None or form.kind not in (AFFINE, INDEXED):
            return False
        size = SIZES[decode(ins).type] // max(1, abs(form.scale)) or 1
        return any(_run(form.off[i : i + 4], size) == "" for i in range(0, 32, 4))


@functools.lru_cache(maxsize=4096)
def _run(off: tuple[int, ...], size: int) -> str:
    """'same' or 'next' when lanes repeat one element or follow one another, else ''."""
    if all(x == off[0] for x in off):
        return "same"
    if all(x == off[0] + i * size for i, x in enumerate(off)):
        return "next"
    return ""
