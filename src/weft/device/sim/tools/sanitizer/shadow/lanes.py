"""Chooses the check of an access by its addresses: one place, a row, or lane by lane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from weft.device.sim.address import Address
from weft.device.sim.layout import Space
from weft.device.sim.observe import Watched
from weft.device.sim.tools.sanitizer.shadow.exact import ExactShadow
from weft.device.sim.tools.sanitizer.shadow.fast import IN_A_ROW, FastShadow, Pattern, pattern_of
from weft.device.sim.tools.sanitizer.shadow.records import AccessPattern
from weft.ir import Val

Values = Sequence[Val] | None


class Shadowed(Protocol):
    """A kernel under the sanitizer: `watcher.Sanitizing`."""

    e: Watched
    fast: FastShadow
    exact: ExactShadow

    def site(self) -> Val:
        """The present instruction as records name it."""


def touch(
    s: Shadowed, space: str, a: Address, way: AccessPattern, lanes: Val, values: Values
) -> None:
    """One access of some lanes, in one space."""
    pattern = pattern_of(a.off, way.nbytes, way.writes) if a.off is not None else None
    differ = values is not None and any(v.lanes for v in values)
    if a.uniform and not (way.writes and differ):
        _one(s, a, space, way, lanes, values)
    elif pattern is not None and not (way.writes and way.strong):
        _pattern(s, a, space, way, lanes, values, pattern)
    elif a.off is None and way.nbytes in (4, 8, 16) and not way.strong:
        _maybe_row(s, a, space, way, lanes, values)
    else:
        _each_lane(s, a, space, way, lanes, values)


def _one(
    s: Shadowed, a: Address, space: str, way: AccessPattern, lanes: Val, values: Values
) -> None:
    e, b = s.e, s.e.b
    assert a.first is not None
    with b.when(lanes.ne(0)):
        done = s.fast.one(b, space, way)(e.slot, e.warp, s.site(), a.first, lanes)
        with b.when(done ^ 1, rare=True):
            first = lanes & (b.integer("i32", 0) - lanes)
            _each_lane(s, a, space, way, first, values)


def _pattern(
    s: Shadowed,
    a: Address,
    space: str,
    way: AccessPattern,
    lanes: Val,
    values: Values,
    pattern: Pattern,
) -> None:
    e, b = s.e, s.e.b
    assert a.first is not None and a.last is not None and a.off is not None
    fn = s.fast.row(b, space, way.writes, pattern, way.cached)
    first = a.first
    # Lanes are at their constant distances only if no index has wrapped in between.
    steady = (a.last - a.first).eq(max(a.off))
    who = (e.slot, e.warp, s.site(), first)
    no = b.integer("i1", 0)

    def some() -> Val:
        # In a cluster, shared memory has records like global memory.
        if pattern != IN_A_ROW or a.space != Space.SHARED or space != "shared":
            return no
        return b.either(steady, lambda: s.fast.some(b, way.writes)(*who, lanes), lambda: no)

    with b.when(b.either(lanes.eq(-1) & steady, lambda: fn(*who), some) ^ 1, rare=True):
        _each_lane(s, a, space, way, lanes, values)


def _maybe_row(
    s: Shadowed, a: Address, space: str, way: AccessPattern, lanes: Val, values: Values
) -> None:
    """Check unknown addresses: often the lanes are neighbours nevertheless."""
    e, b = s.e, s.e.b
    off = tuple(range(0, 32 * way.nbytes, way.nbytes))
    pattern = pattern_of(off, way.nbytes, way.writes)
    places = a.wide.vector() if a.wide is not None else a.exact
    assert pattern is not None and places is not None
    first = b.extract(b.splat(places, 32), 0)
    row = s.fast.row(b, space, way.writes, pattern, way.cached)
    done = b.either(
        lanes.eq(-1) & b.same(b.splat(places, 32), b.splat(first, 32) + b.lanes("i64", off)),
        lambda: row(e.slot, e.warp, s.site(), first),
        lambda: b.integer("i1", 0),
    )
    with b.when(done ^ 1):
        _each_lane(s, a, space, way, lanes, values)


def _each_lane(
    s: Shadowed, a: Address, space: str, way: AccessPattern, lanes: Val, values: Values
) -> None:
    e, b = s.e, s.e.b
    held = b.val("ptr", 0, "inttoptr i64 0 to ptr")
    element = way.nbytes
    if values is not None:
        element = values[0].bits // 8
        held = e.memory.buffer(len(values))
        for i, v in enumerate(values):
            b.store(b.splat(v, 32), b.at(held, 32 * element * i), 8)
    fn = s.exact.lanes(b, space, way, element)
    fn(e.slot, e.warp, s.site(), e.memory.addresses(a), lanes, held)
