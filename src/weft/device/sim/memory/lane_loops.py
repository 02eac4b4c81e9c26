"""Out-of-line loops over lanes: their addresses spread out, and lane-by-lane loads and stores."""

from __future__ import annotations

from weft.device.sim.access import MemoryAccess
from weft.device.sim.address import Address, Wide
from weft.device.sim.lane_sets import lane_table
from weft.device.sim.memory.checks import checked_lanes
from weft.device.sim.protocols import Emission, Located
from weft.ir import Builder, Val

_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)


def spread(e: Emission, a: Address, out: Val) -> None:
    """All addresses of a scalar form into `out`, each exactly: even where an index wraps."""
    b = e.b
    assert a.off is not None
    if a.wide is None:
        assert a.first is not None

        def near(x: Builder, args: list[Val]) -> None:
            first, table, target = args
            with x.loop(32) as i:
                at = i.zext("i64") << 3
                x.store(x.load("i64", 0, x.at(table, at), 8) + first, x.at(target, at), 8)

        b.helper("spread_near", [_I64, _P, _P], None, near)(
            a.first, lane_table(b, "i64", a.off), out
        )
        return
    w = a.wide

    def far(x: Builder, args: list[Val]) -> None:
        base, scale, index, table, target = args
        with x.loop(32) as i:
            at = i.zext("i64")
            v = x.load("i32", 0, x.at(table, at << 2), 4) + index
            wide = v.sext("i64") if w.signed else v.zext("i64")
            x.store(wide * scale + base, x.at(target, at << 3), 8)

    fn = b.helper(f"spread_far_{'s' if w.signed else 'u'}", [_I64, _I64, _I32, _P, _P], None, far)
    fn(w.base, b.integer("i64", w.scale), w.index, lane_table(b, "i32", w.off), out)


def spread_index(e: Emission, w: Wide, index: Val, out: Val) -> None:
    """base + scale * ext(index[i]) for 32 lanes."""
    b = e.b

    def body(x: Builder, args: list[Val]) -> None:
        base, source, target = args
        v = x.load("i32", 32, source, 64)
        wide = v.sext("i64") if w.signed else v.zext("i64")
        x.store(wide * w.scale + base, target, 64)

    name = f"spread_{'s' if w.signed else 'u'}{w.scale}"
    b.helper(name, [_I64, _P, _P], None, body)(w.base, index, out)


def _apart(e: Emission, verb: str, p: Val, off: tuple[int, ...], size: int, data: Val) -> None:
    """Access lanes at constant distances, checked before: a loop over a table of them."""
    b, ty = e.b, f"i{8 * size}"

    def body(x: Builder, args: list[Val]) -> None:
        base, table, buffer = args
        with x.loop(32) as i:
            at = i.zext("i64")
            far = x.at(base, x.load("i32", 0, x.at(table, at << 2), 4).zext("i64"))
            near = x.at(buffer, at * size)
            source, target = (far, near) if verb == "gather" else (near, far)
            x.store(x.load(ty, 0, source, size), target, size)

    b.helper(f"{verb}_{size}", [_P, _P, _P], None, body)(p, lane_table(b, "i32", off), data)


def gather(e: Emission, p: Val, off: tuple[int, ...], size: int, data: Val) -> None:
    """data[lane] from p + off[lane]."""
    _apart(e, "gather", p, off, size, data)


def scatter(e: Emission, p: Val, off: tuple[int, ...], size: int, data: Val) -> None:
    """data[lane] to p + off[lane], in lane order."""
    _apart(e, "scatter", p, off, size, data)


def load_lanes(
    e: Located, access: MemoryAccess, addresses: Val, lanes: Val, size: int, count: int, data: Val,
    site: int,
) -> Val:  # fmt: skip
    """Each running lane's elements into data[element][lane]."""

    def touch(b: Builder, lane: Val, p: Val, extra: list[Val]) -> None:
        for i in range(count):
            v = b.load(f"i{8 * size}", 0, b.at(p, i * size), 1)
            b.store(v, b.at(b.at(extra[0], 32 * size * i), lane.zext("i64") * size), size)

    name = f"load_{access.space}_{size}x{count}"
    return checked_lanes(e, name, access, [_P], touch)(addresses, lanes, site, data)


def copy_lanes(
    e: Located, access: MemoryAccess, addresses: Val, lanes: Val, target: Val, site: int
) -> Val:
    """Copy the bytes that each running lane may read to target + its lane offset."""
    a, nbytes = access.address, access.nbytes
    assert a.off is not None

    def touch(b: Builder, lane: Val, p: Val, extra: list[Val]) -> None:
        offset = b.load("i64", 0, b.at(extra[1], lane.zext("i64") << 3), 8)
        b.store(b.load(f"i{8 * nbytes}", 0, p, 1), b.at(extra[0], offset), 1)

    name = f"copy_{a.space}_{nbytes}"
    fn = checked_lanes(e, name, access, [_P, _P], touch)
    return fn(addresses, lanes, site, target, lane_table(e.b, "i64", a.off))


def store_lanes(
    e: Located, access: MemoryAccess, addresses: Val, lanes: Val, size: int, count: int, data: Val,
    site: int,
) -> Val:  # fmt: skip
    """data[element][lane] into each running lane's place, in lane order."""

    def touch(b: Builder, lane: Val, p: Val, extra: list[Val]) -> None:
        for i in range(count):
            at = b.at(b.at(extra[0], 32 * size * i), lane.zext("i64") * size)
            b.store(b.load(f"i{8 * size}", 0, at, size), b.at(p, i * size), 1)

    name = f"store_{access.space}_{size}x{count}"
    return checked_lanes(e, name, access, [_P], touch)(addresses, lanes, site, data)
