"""Loads and stores at addresses known only at run time, one element a lane.

Most such accesses still have structure (rows of a tile, quotients and remainders of an index):
when every sixteen or four lanes in a row touch neighbours, short vectors do it; when every sixteen
load the same element (a row of a matrix in a 16-wide block), it is loaded once for them; otherwise
it goes lane by lane. Either way each address is checked first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from weft.device.sim.access import MemoryAccess
from weft.device.sim.address import Address, Wide
from weft.device.sim.layout import Site, Space, WorkerFields
from weft.device.sim.memory import checks, prefetch
from weft.device.sim.protocols import Emission, Errors, Located
from weft.ir import BITS, Builder, Val

_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)
_HEAD = [_P, _P, _P, _P, _P, _I64, _I64, _I32, _I64]
"""context, worker, slot, local, window, base, scale, lanes, instruction"""
NEIGHBOURS = ((16, 1), (4, 1))
"""Consecutive lanes that are neighbours: half a warp as in a 16-wide tile, or four."""
LOADED = ((16, 1), (16, 0), (4, 1))
"""The same for loads, where lanes may also share an element; (lanes, elements between two)."""


class Checked(Located, Errors, Protocol):
    """Checks addresses and leaves the warp when one is wrong."""


def load(e: Checked, access: MemoryAccess, ty: str, lanes: Val, site: int) -> Val:
    """One element a lane."""
    w = _wide(e, access.address)
    size = BITS[ty] // 8
    kind = _kind(w)

    def body(b: Builder, args: list[Val]) -> Val:
        def grouped(pointers: list[Val], apart: int) -> Val:
            width = 32 // len(pointers)
            if access.space == Space.GLOBAL:
                starts = [b.val("i64", 0, f"ptrtoint {p.typed} to i64") for p in pointers]
                last = partial(b.at, args[4], Site.LAST)
                prefetch.ahead(b, last, starts, width * size if apart else size)
            if apart:
                return b.concat([b.load(ty, width, p, size) for p in pointers])
            return b.concat([b.splat(b.load(ty, 0, p, size), width) for p in pointers])

        _by_groups(b, access, e, w, args, LOADED, lambda *group: b.ret(grouped(*group)))
        data = b.array("i64", 64)
        _lane_by_lane(b, e, access, w, args, data)
        return b.load(ty, 32, data, 8)

    fn = e.b.helper(
        f"sparse_load_{access.space}_{ty}_{kind}", [*_HEAD, (w.index.element, 32)], (ty, 32), body
    )
    out = fn(*_head(e, w, lanes, site), w.lanes())
    _abort_on_error(e)
    return out


def store(e: Checked, access: MemoryAccess, value: Val, lanes: Val, site: int) -> None:
    """One element a lane, in lane order."""
    w = _wide(e, access.address)
    size = value.bits // 8
    kind = _kind(w)

    def body(b: Builder, args: list[Val]) -> None:
        v = args[-1]

        def grouped(pointers: list[Val], apart: int) -> None:
            width = 32 // len(pointers)
            for i, p in enumerate(pointers):
                b.store(b.shuffle(v, range(width * i, width * (i + 1))), p, size)
            b.ret()

        _by_groups(b, access, e, w, args, NEIGHBOURS, grouped)
        data = b.array("i64", 64)
        b.store(v, data, 8)
        _lane_by_lane(b, e, access, w, args, data)

    kinds = [*_HEAD, (w.index.element, 32), (value.element, 32)]
    fn = e.b.helper(f"sparse_store_{access.space}_{value.element}_{kind}", kinds, None, body)
    fn(*_head(e, w, lanes, site), w.lanes(), value)
    _abort_on_error(e)


def _wide(e: Emission, a: Address) -> Wide:
    if a.wide is not None:
        return a.wide
    assert a.exact is not None
    return Wide(e.b.integer("i64", 0), e.b.splat(a.exact, 32), (0,) * 32, 1, False)


def _kind(w: Wide) -> str:
    # Helpers are shared by name, so the name has all that their code depends on.
    return f"{w.index.element}{'s' if w.signed else 'u'}{w.scale}"


def _head(e: Located, w: Wide, lanes: Val, site: int) -> list[Val]:
    b = e.b
    window = b.at(e.sites, Site.SIZE * site)
    return [
        e.context, e.worker, e.slot, e.local, window, w.base, b.integer("i64", w.scale), lanes,
        b.integer("i64", e.ins.index),
    ]  # fmt: skip


def _abort_on_error(e: Checked) -> None:
    error = e.b.load("i64", 0, e.b.at(e.worker, WorkerFields.ERROR), 8)
    e.abort_unless(error.eq(0))


def _widen(v: Val, w: Wide) -> Val:
    if v.element == "i64":
        return v
    return v.sext("i64") if w.signed else v.zext("i64")


def _by_groups(
    b: Builder,
    access: MemoryAccess,
    e: Emission,
    w: Wide,
    args: list[Val],
    groups: Sequence[tuple[int, int]],
    grouped: Callable[[list[Val], int], None],
) -> None:
    """Let `grouped` access memory and return from the function if the index vector allows it.

    The following code is the slow path: no group fits, or one is not inside the cached window.
    """
    lanes, size = args[7], access.nbytes
    index = args[9]
    # With such a scale, no step of the index leads to the next element.
    if w.scale <= 0 or size % w.scale:
        return
    # Indices are compared, not addresses: they have 32 bits, and half as many vector operations
    # show whether lanes are neighbours.
    step = size // w.scale
    inside = checks.quick_check(b, access.space, e.program.local_bytes, size, args)
    # A vector would touch lanes that do not run, and their addresses may be anything.
    with b.when(lanes.eq(-1)):
        for group, apart in groups:
            leaders = b.shuffle(index, [i // group * group for i in range(32)])
            within = b.lanes(index.element, [i % group * step for i in range(32)])
            with b.when(b.same(index, leaders + within if apart else leaders)):
                ok, pointers = _group_ends(b, w, args, size, group, apart, inside)
                with b.when(ok):
                    grouped(pointers, apart)


def _group_ends(
    b: Builder, w: Wide, args: list[Val], size: int, group: int, apart: int,
    inside: Callable[[Val, Val], Val],
) -> tuple[Val, list[Val]]:  # fmt: skip
    """(true if both ends of every group are valid addresses, the start of each group)."""
    base, scale, index = args[5], args[6], args[9]
    # The two ends bound a group. An index that wraps inside it puts them 2^32 elements apart, and
    # no window is that large (see `checks._search`).
    ok, pointers = b.integer("i1", 1), []
    for i in range(0, 32, group):
        for j in (i, i + group - 1) if apart else (i,):
            address = _widen(b.extract(index, j), w) * scale + base
            ok = ok & inside(address, b.integer("i32", j)) & (address & (size - 1)).eq(0)
            if j == i:
                pointers.append(b.val("ptr", 0, f"inttoptr {address.typed} to ptr"))
    return ok, pointers


def _lane_by_lane(
    b: Builder, e: Emission, access: MemoryAccess, w: Wide, args: list[Val], data: Val
) -> None:
    base, scale, lanes, number = args[5:9]
    size, space = access.nbytes, access.space
    table = b.array("i64", 32)
    b.store(_widen(args[9], w) * scale + base, table, 64)

    def touch(x: Builder, lane: Val, p: Val, extra: list[Val]) -> None:
        at = x.at(extra[0], lane.zext("i64") * size)
        if access.writes:
            x.store(x.load(f"i{8 * size}", 0, at, size), p, 1)
        else:
            x.store(x.load(f"i{8 * size}", 0, p, 1), at, size)

    name = f"{'store' if access.writes else 'load'}_{space}_{size}x1"
    local_bytes = e.program.local_bytes
    fn = checks.lane_helper(
        b, name, space, local_bytes, size, access.writes, [_P], touch, clusters=e.program.clusters
    )
    fn(*args[:5], table, lanes, number, data)
