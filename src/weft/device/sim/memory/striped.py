"""Loads and stores of a warp that holds several rows of a block: each row is a run of neighbours.

A block of 16 x 16 threads that accesses `a[row * width + column]` touches two runs of 16 elements
in each warp, as far apart as the width says. The two ends of each run are checked; then it is one
vector. Everything else is handled like unknown addresses (`sparse`).
"""

from __future__ import annotations

from weft.device.sim.access import MemoryAccess
from weft.device.sim.layout import Site, Space
from weft.device.sim.memory import prefetch
from weft.device.sim.memory.accessing import Accessing
from weft.ir import BITS, Builder, Val
from weft.records import dataclass


@dataclass(slots=True)
class RowRuns:
    """The byte offset of each row of the warp; `ok` if all of them may be accessed."""

    starts: list[Val]
    apart: int
    ok: Val


def find(e: Accessing, access: MemoryAccess) -> RowRuns | None:
    """The rows of an access; None unless they are runs of equal or neighbouring elements."""
    w, b, nbytes = access.address.wide, e.b, access.nbytes
    apart = w.row_step() if w is not None else None
    if w is None or apart not in ([nbytes] if access.writes else [0, nbytes]):
        return None
    assert apart is not None
    site = b.at(e.sites, Site.SIZE * e.windows.site())
    low, count = (b.load("i64", 0, b.at(site, at), 8) for at in (Site.LOW, Site.STARTS))
    starts, ok = [], b.integer("i1", 1)
    for ends in w.row_ends():
        # No window is as large as an index that wraps (see `form.SPAN`): two ends are enough.
        for end in ends if apart else ends[:1]:
            ok = ok & (end - low).ult(count)
        if nbytes > 1:
            ok = ok & (ends[0] & (nbytes - 1)).eq(0)
        starts.append(ends[0])
    return RowRuns(starts, apart, ok)


def load(e: Accessing, access: MemoryAccess, runs: RowRuns, ty: str) -> Val:
    """One element a lane; the runs have been checked."""
    b, size, length = e.b, BITS[ty] // 8, 32 // len(runs.starts)
    if access.space == Space.GLOBAL:
        prefetch.ahead(b, e.windows.last, runs.starts, runs.apart * (length - 1) + size)
    places = [_pointer(b, p) for p in runs.starts]
    if runs.apart:
        return b.concat([b.load(ty, length, p, size) for p in places])
    return b.concat([b.splat(b.load(ty, 0, p, size), length) for p in places])


def store(e: Accessing, runs: RowRuns, value: Val) -> None:
    """One element a lane, in lane order; the runs have been checked."""
    b, size, length = e.b, value.bits // 8, 32 // len(runs.starts)
    for i, p in enumerate(runs.starts):
        part = b.shuffle(b.splat(value, 32), range(i * length, (i + 1) * length))
        b.store(part, _pointer(b, p), size)


def _pointer(b: Builder, p: Val) -> Val:
    return b.val("ptr", 0, f"inttoptr {p.typed} to ptr")
