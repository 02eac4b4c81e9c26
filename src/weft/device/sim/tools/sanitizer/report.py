"""Findings as compiled code records them: one entry for each kind and pair of instructions."""

from __future__ import annotations

from weft.device.sim.tools.sanitizer.layout import BlockState, Record, WorkerState
from weft.device.sim.tools.sanitizer.order.words import put, word
from weft.ir import Builder, Val

_P, _I64 = ("ptr", 0), ("i64", 0)


def report(
    b: Builder, p: Val, kind: int, current: Val, other: Val, address: Val, apart: Val | None = None
) -> None:
    """Record a finding; of equal ones the first is stored with their number.

    apart  the distance of the two threads, see `Apart`
    """
    key = (current & Record.SITES) | ((other & Record.SITES) << 13) | (kind << 28)
    if apart is not None:
        key = key | (apart << 26)
    fn = b.helper("sanitizer_report", [_P, _I64, _I64, _I64, _I64], None, _report, attrs="#2")
    fn(p, key, current, other, address)


def first_of(b: Builder, lanes: Val, warp: Val) -> Val:
    """The bits of a record that name the first of these lanes of a warp."""
    lane = b.intrinsic("cttz", [lanes], extra="false").zext("i64") & 31
    return (lane << Record.LANE) | (warp.zext("i64") << Record.WARP)


def _report(b: Builder, args: list[Val]) -> None:
    p, key, current, other, address = args
    worker = b.load("ptr", 0, b.at(p, BlockState.WORKER))
    mixed = key * 0x9E3779B97F4A7C15
    home = (mixed >> 40).trunc("i32")
    with b.loop(WorkerState.ENTRIES) as i:
        at = ((home + i) & (WorkerState.ENTRIES - 1)).zext(
            "i64"
        ) * WorkerState.ENTRY + WorkerState.FINDINGS
        entry = b.at(worker, at)
        with b.when(word(b, entry).eq(0)):
            fields = {
                WorkerState.KEY: key,
                WorkerState.ADDRESS: address,
                WorkerState.MINE: current,
                WorkerState.OTHER: other,
                WorkerState.BLOCK: word(b, p, BlockState.BLOCK),
            }
            for field, v in fields.items():
                put(b, v, entry, field)
        with b.when(word(b, entry).eq(key)):
            put(b, word(b, entry, WorkerState.TIMES) + 1, entry, WorkerState.TIMES)
            b.ret()
    # The table is full of other findings: this one is only counted.
    put(b, word(b, worker, WorkerState.LOST) + 1, worker, WorkerState.LOST)
