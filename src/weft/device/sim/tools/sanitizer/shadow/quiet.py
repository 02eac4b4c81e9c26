"""Reads that need no records: those of arrays that the kernel does not write, all initialised."""

from __future__ import annotations

from weft.device.sim.address import Address
from weft.device.sim.layout import WorkerFields
from weft.device.sim.observe import Watched
from weft.device.sim.tools.sanitizer.layout import WorkerState
from weft.device.sim.tools.sanitizer.order.words import word
from weft.ir import Val


def is_quiet(e: Watched, number: int, a: Address, lanes: Val) -> Val:
    """True at run time if all lanes read from an initialised array that is not written: no check.

    It is the array that the instruction, which records call `number`, last read from.
    """
    b = e.b
    worker = b.load("ptr", 0, b.at(e.worker, WorkerFields.OBSERVER))
    site = b.at(worker, WorkerState.CACHE + WorkerState.SITE * number)
    low, nbytes = (word(b, site, WorkerState.QUIET + at) for at in (0, 8))

    def inside(address: Val) -> Val:
        return (address - low).ult(nbytes)

    if a.off is not None:
        assert a.first is not None and a.last is not None
        # Lanes are at their constant distances only if no index has wrapped in between.
        quiet = inside(a.first)
        if not a.uniform:
            quiet = quiet & inside(a.last) & (a.last - a.first).eq(max(a.off))
        return quiet
    if a.wide is not None and a.wide.row_step() is not None:
        quiet, step = b.integer("i1", 1), a.wide.row_step() or 0
        for first, last in (ends := a.wide.row_ends()):
            quiet = quiet & inside(first) & inside(last)
            quiet = quiet & ((last - first).eq(step * (32 // len(ends) - 1)))
        return quiet
    places = a.wide.vector() if a.wide is not None else a.exact
    assert places is not None
    outside = (b.splat(places, 32) - low).uge(nbytes)
    return b.any(outside if e.executes_fully else outside & e.lanes_of(lanes)) ^ 1
