"""Code that counts the accesses of `wmma.load` and `wmma.store`.

The assembler makes a load or store of each register, and one of two or four registers where every
lane has them side by side in memory. A matrix whose lines run across a register's elements is read
in blocks of eight rows, and transposed afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.device.sim.access import FragmentRows, MemoryAccess
from weft.device.sim.lane_sets import lane_table
from weft.device.sim.layout import Space
from weft.device.sim.observe import Watched
from weft.device.sim.tools.counters import shared
from weft.device.sim.tools.counters.lanes import count_lanes
from weft.device.sim.tools.counters.lines import route_of
from weft.device.sim.tools.counters.rows import CounterRows
from weft.ir import Builder, Val

WIDEST = 16
Places = Sequence[tuple[int, int]]
"""(row, byte in the row) of each lane."""
_P, _I64 = ("ptr", 0), ("i64", 0)


def accesses(rows: FragmentRows) -> list[tuple[int, Places]]:
    """(bytes, places) of each access that a fragment takes."""
    if rows.unit < 4:
        return [(4, _block(r, c)) for r in range(rows.count // 8) for c in range(rows.nbytes // 16)]
    registers = [rows.parts[i : i + 32] for i in range(0, len(rows.parts), 32)]
    out: list[tuple[int, Places]] = []
    for places in registers:
        if out and out[-1][0] < WIDEST and _follows(out[-1], places):
            out[-1] = (out[-1][0] + rows.unit, out[-1][1])
        else:
            out.append((rows.unit, places))
    return out


def _block(r: int, c: int) -> Places:
    """Eight rows of 16 bytes, four lanes a row."""
    return [(8 * r + lane // 4, 16 * c + 4 * (lane % 4)) for lane in range(32)]


def _follows(before: tuple[int, Places], places: Places) -> bool:
    """Return whether every lane continues at its previous end. Only powers of two are merged."""
    width, firsts = before
    return width.bit_count() == 1 and all(
        # A wider access must be aligned to its own size.
        (row, byte + width) == place and byte % (2 * width) == 0
        for (row, byte), place in zip(firsts, places, strict=True)
    )


def count(e: Watched, counters: CounterRows, access: MemoryAccess) -> None:
    """One access after the other, of all lanes."""
    b, rows = e.b, access.rows
    assert rows is not None
    route = route_of(access.ins, writes=access.writes)
    start = b.val("i64", 0, f"ptrtoint {e.shared.typed} to i64")
    inside = (rows.first - start).ult(e.shared_bytes.zext("i64"))
    if access.space != Space.GENERIC:
        inside = b.integer("i1", int(access.space == Space.SHARED))
    table, offsets, lanes = e.memory.table(), e.memory.offsets(), b.integer("i32", -1)
    fill = b.helper("count_fragment", [_I64, _I64, _P, _P], None, _fill)
    for width, places in accesses(rows):
        far = counters.of(access, route=route, piece=width, any_lanes=True)
        near = counters.near(access, piece=width)
        offsets_of_lanes = lane_table(b, "i64", tuple(x for place in places for x in place))
        fill(rows.first, rows.step, offsets_of_lanes, table)

        def count_near(width: int = width, near: Val = near) -> None:
            b.store((b.load("i64", 32, table, 64) - start).trunc("i32"), offsets, 64)
            shared.count_shared(b, width, reads=not access.writes)(near, offsets, lanes)

        def count_far(width: int = width, far: Val = far) -> None:
            fn = count_lanes(b, route, width)
            fn(counters.launch(), counters.counters(), far, table, lanes)

        b.either(inside, count_near, count_far)


def _fill(b: Builder, args: list[Val]) -> None:
    """(first row, step, places, addresses)."""
    first, step, places, table = args
    with b.loop(32) as i:
        k = i.zext("i64")
        row, byte = (b.load("i64", 0, b.at(places, (k << 4) + at), 8) for at in (0, 8))
        b.store(first + row * step + byte, b.at(table, k << 3), 8)
