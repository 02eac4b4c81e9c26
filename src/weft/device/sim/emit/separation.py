"""The end of a lockstep: records for each warp the state that was omitted meanwhile."""

from __future__ import annotations

from functools import partial

from weft.device.sim.analyse.phases import ENDED
from weft.device.sim.emit.frame import FrameLayout
from weft.device.sim.lane_sets import lane_table
from weft.device.sim.layout import (
    FINISHED,
    FRESH,
    FrameFields,
    SlotFields,
    WarpStatus,
    WorkerFields,
)
from weft.device.sim.protocols import Located
from weft.ir import Builder, Val

_P, _I32 = ("ptr", 0), ("i32", 0)


def call(e: Located, words: list[Val]) -> None:
    """Separate the warps; `words` are the phase, its outcome, status and place of the warp."""
    typed = ", ".join(v.typed for v in (e.worker, e.slot, e.frames, e.warp, *words))
    e.b.emit(f"call void @separate({typed})")


def emit(
    e: Located, places: list[tuple[int, int, int]], frames: FrameLayout, *, late: bool
) -> None:
    """The function that `call` calls; a place is the barrier's row, instruction and number.

    late  the state of barriers and warps has not been cleared yet
    """
    frame_bytes = frames.nbytes

    def body(b: Builder, args: list[Val]) -> None:
        worker, slot, start, warp, phase, outcome, status, resume = args
        table = lane_table(b, "i32", tuple(x for row in places for x in row))
        if late:
            clear(b, slot, frames)
        releases = b.load("i32", 0, b.at(slot, SlotFields.RELEASES))

        def wait(frame: Val, resume: Val, passed: bool) -> None:
            """Record that the warp waits at a barrier, or is about to continue from one."""
            place = b.at(table, resume.zext("i64") * 12)
            row, index, number = (b.load("i32", 0, b.at(place, 4 * i), 4) for i in range(3))
            barrier = b.at(
                slot, (number * SlotFields.BARRIER_BYTES + SlotFields.BARRIERS).zext("i64")
            )
            generation = b.load("i32", 0, b.at(barrier, SlotFields.GENERATION))
            lanes = b.load("i32", 0, b.at(frame, FrameFields.LIVE))
            fields = {
                FrameFields.STATE: resume,
                FrameFields.STATUS: b.integer("i32", WarpStatus.WAITING),
                FrameFields.MASK: lanes,
                FrameFields.SEEN: releases - int(passed),
                FrameFields.SITE: index,
            }
            for at, value in fields.items():
                b.store(value, b.at(frame, at))
            note = b.at(b.at(frame, frames.waits_at), row.zext("i64") << 4)
            for i, value in enumerate((lanes, number, generation - int(passed))):
                b.store(value, b.at(note, 4 * i))
            if not passed:
                threads = b.intrinsic("ctpop", [lanes])
                whole = b.integer("i32", 32)
                for at, by in ((SlotFields.ARRIVED, threads), (SlotFields.WEIGHT, whole)):
                    b.store(b.load("i32", 0, b.at(barrier, at)) + by, b.at(barrier, at))
                ids = b.at(slot, SlotFields.ARRIVED_IDS)
                b.store(b.load("i32", 0, ids) | (b.integer("i32", 1) << number), ids)

        def end(frame: Val) -> None:
            live = b.at(slot, SlotFields.LIVE_WARPS)
            b.store(b.load("i32", 0, live) - 1, live)
            b.store(b.integer("i32", FINISHED), frame)
            retire(b, slot, frame)

        ended = outcome.eq(ENDED)
        with b.loop(frames.warps) as w:
            frame = b.at(start, w.zext("i64") * frame_bytes)
            with b.when(w.ult(warp)):
                b.either(ended, partial(end, frame), partial(wait, frame, outcome, passed=False))
            with b.when(w.ugt(warp) & phase.ne(0)):
                wait(frame, phase, passed=True)
        frame = b.at(start, warp.zext("i64") * frame_bytes)
        with b.when(resume.ne(0)):
            wait(frame, resume, passed=False)
        b.store(status, b.at(frame, FrameFields.STATUS))
        b.store(releases, b.at(frame, FrameFields.SEEN))
        with b.when(status.eq(WarpStatus.DONE)):
            end(frame)
        b.store(b.integer("i64", 1), b.at(worker, WorkerFields.CHANGED))

    e.b.helper("separate", [_P, _P, _P, *[_I32] * 5], None, body, attrs="#2")


def clear(b: Builder, slot: Val, frames: FrameLayout) -> None:
    """Initialise the state: no warp has started, and none waits at a barrier."""
    for k in range(16 if frames.barriers else 0):
        row = b.at(slot, SlotFields.BARRIERS + k * SlotFields.BARRIER_BYTES)
        # Without the results, which are written before they are read.
        b.store(b.zero("i32", 8), row, 8)
    with b.loop(frames.warps) as w:
        frame = b.at(slot, (w.zext("i64") * frames.nbytes) + SlotFields.FRAMES)
        # STATE and STATUS in one store.
        b.store(b.integer("i64", FRESH), frame)
        b.store(b.integer("i32", -1), b.at(frame, FrameFields.SEEN))
        # The turns of pending lanes start with the first point.
        b.store(b.integer("i32", -1), b.at(frame, FrameFields.ROTATE))
        if frames.sites:
            with b.loop(frames.sites) as i:
                row = b.at(b.at(frame, frames.waits_at), i.zext("i64") << 4)
                b.store(b.integer("i64", 0), row)  # no lanes wait


def retire(b: Builder, slot: Val, frame: Val) -> None:
    """Retire the live lanes of a warp: barriers expect only threads that have not exited."""
    at, threads = b.at(frame, FrameFields.LIVE), b.at(slot, SlotFields.LIVE_THREADS)
    gone = b.intrinsic("ctpop", [b.load("i32", 0, at)])
    b.store(b.load("i32", 0, threads) - gone, threads)
    b.store(b.integer("i32", 0), at)
