"""Code that counts the accesses of `wmma.load` and `wmma.store`.

How the assembler makes them is its own affair. They are counted as accesses of up to 32 lanes that
take 16 bytes each (a whole row, if it has fewer), in the order of the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.device.sim.count import shared
from weft.device.sim.count.lanes import count_lanes
from weft.device.sim.count.lines import way_of
from weft.device.sim.layout import Space
from weft.ir import Builder, Val

if TYPE_CHECKING:
    from weft.device.sim.count.watcher import CountWatcher
    from weft.device.sim.observe import Touch

PIECE = 16
_P, _I64 = ("ptr", 0), ("i64", 0)


def count(w: CountWatcher, touch: Touch) -> None:
    """All pieces of a fragment, 32 at a time."""
    e, b, rows = w.e, w.e.b, touch.rows
    assert rows is not None
    size = min(PIECE, rows.nbytes)
    each = rows.nbytes // size
    total = rows.count * each
    way = way_of(e.ins.parts, writes=touch.writes)
    far, near = w.describe(touch, way=way, piece=size), w.near_row(touch)
    table, offsets = e.access.table(), e.access.offsets()
    fill = b.helper(
        f"count_pieces_{each}_{size}",
        [_I64, _I64, _I64, _P],
        None,
        lambda x, args: _pieces(x, args, each, size),
    )
    start = b.val("i64", 0, f"ptrtoint {e.shared.tref} to i64")
    inside = (rows.first - start).ult(e.shared_bytes.zext("i64"))
    if touch.address.space != Space.GENERIC:
        inside = b.integer("i1", int(touch.address.space == Space.SHARED))
    for done in range(0, total, 32):
        lanes = b.integer("i32", (1 << min(32, total - done)) - 1)
        fill(rows.first, rows.step, b.integer("i64", done), table)
        yes, no, end = b.label("near"), b.label("far"), b.label("counted")
        b.branch(inside, yes, no)
        b.place(yes)
        b.store((b.load("i64", 32, table, 64) - start).trunc("i32"), offsets, 64)
        shared.count_matrix(b)(near, offsets, lanes)
        b.jump(end)
        b.place(no)
        count_lanes(b, way, size)(w.launch(), w.counters(), far, table, lanes)
        b.jump(end)
        b.place(end)


def _pieces(b: Builder, args: list[Val], each: int, size: int) -> None:
    """(first row, step, first piece, addresses): where 32 pieces are."""
    first, step, start, table = args
    with b.loop(32) as i:
        k = i.zext("i64")
        piece = k + start
        row = b.binary("udiv", piece, b.integer("i64", each))
        byte = (piece - row * each) * size
        b.store(first + row * step + byte, b.at(table, k << 3), 8)
