"""`stall`: detects that a waiting block has returned to a state it was in before.

A block's state is all that decides what it does next, as long as memory stays the same: its warps'
frames (where each goes on, which lanes run, the registers that live on) and its barriers. While no
thread changes memory, a block that returns to an earlier state repeats forever. Where every block
of a launch does, the launch is deadlocked: a verdict that depends on no clock
(`run/failures/deadlock_detection.py` combines the blocks).

States are compared by a 64-bit hash. Each is compared with one that is kept; the kept one is
replaced after 1, 2, 4, ... others (Brent), so that a cycle of any length is found. What only counts
up (the generation of a barrier) takes part as a difference.
"""

from __future__ import annotations

from weft.device.sim.emit.frame import FrameLayout
from weft.device.sim.layout import FINISHED, ContextFields, FrameFields, SlotFields, WorkerFields
from weft.ir import Builder, IrFunction, IrModule, Val

# 2^64 divided by the golden ratio: an odd factor, so that multiplying loses no bits.
_FACTOR = 0x9E3779B97F4A7C15 - (1 << 64)
_BARRIERS = 16
_NOTE = 16  # bytes of a row in a frame: lanes that wait, at which barrier, its generation


def emit_stall(module: IrModule, frames: FrameLayout) -> None:
    """Add `stall(context, worker, slot)`: called after a round in which the block only waited."""
    fn = IrFunction("stall", [], "void", "#0")
    b = Builder(module, fn)
    fn.params = [Val(b, "ptr", 0, f"%{x}") for x in "CKS"]
    context, worker, slot = fn.params
    flag = b.at(worker, WorkerFields.CHANGED)
    changed = b.load("i64", 0, flag)
    with b.when(changed.ne(0)):
        b.store(b.integer("i64", 0), flag)
        note_change(b, worker)
        b.ret()
    epoch = b.val(
        "i64", 0, f"load atomic i64, {b.at(context, ContextFields.EPOCH).typed} acquire, align 8"
    )
    with b.when(epoch.ne(0)):  # detection is on
        _compare(b, slot, epoch, _state(b, slot, frames))
    b.ret()
    module.functions["stall"] = fn.text()


def note_change(b: Builder, worker: Val) -> None:
    """Count a change that other threads can see: a thread that reads the count sees the change."""
    at = b.at(worker, WorkerFields.CHANGES)
    _publish(b, b.load("i64", 0, at) + 1, at)


def _publish(b: Builder, value: Val, at: Val) -> None:
    b.emit(f"store atomic {value.typed}, {at.typed} release, align 8")


def _compare(b: Builder, slot: Val, epoch: Val, state: Val) -> None:
    kept, age, limit, repeated, compared = (
        b.at(slot, x)
        for x in (
            SlotFields.STATE_HASH,
            SlotFields.AGE,
            SlotFields.LIMIT,
            SlotFields.REPEATED,
            SlotFields.EPOCH,
        )
    )
    zero, one = b.integer("i64", 0), b.integer("i64", 1)
    with b.when(b.load("i64", 0, compared).ne(epoch)):
        for value, place in ((state, kept), (zero, age), (one, limit), (zero, repeated)):
            b.store(value, place)
        _publish(b, epoch, compared)  # last: the fields above are of this epoch
        b.ret()
    with b.when(state.eq(b.load("i64", 0, kept))):
        _publish(b, one, repeated)
        b.ret()
    older = b.load("i64", 0, age) + 1
    b.store(older, age)
    with b.when(older.uge(b.load("i64", 0, limit))):
        b.store(state, kept)
        b.store(zero, age)
        b.store(older + older, limit)


def _state(b: Builder, slot: Val, frames: FrameLayout) -> Val:
    mixed = b.alloca("i64")
    b.store(b.integer("i64", 0), mixed)
    _mix(b, mixed, b.load("i64", 0, b.at(slot, SlotFields.LIVE_THREADS)))  # and LIVE_WARPS
    if frames.barriers:
        with b.loop(_BARRIERS) as i:
            _mix_barrier(
                b, mixed, b.at(slot, i.zext("i64") * SlotFields.BARRIER_BYTES + SlotFields.BARRIERS)
            )
    with b.loop(frames.warps) as w:
        frame = b.at(slot, w.zext("i64") * frames.nbytes + SlotFields.FRAMES)
        with b.when(b.load("i32", 0, frame).ne(FINISHED)):
            _mix_frame(b, mixed, slot, frame, frames)
    return b.load("i64", 0, mixed)


def _mix(b: Builder, mixed: Val, word: Val) -> None:
    value = (b.load("i64", 0, mixed) ^ word) * _FACTOR
    b.store(value ^ (value >> 29), mixed)


def _mix_words(b: Builder, mixed: Val, start: Val, nbytes: int) -> None:
    if nbytes:
        with b.loop(nbytes // 8) as i:
            _mix(b, mixed, b.load("i64", 0, b.at(start, i.zext("i64") << 3), 8))


def _mix_pair(b: Builder, mixed: Val, low: Val, high: Val) -> None:
    _mix(b, mixed, low.zext("i64") | (high.zext("i64") << 32))


def _mix_barrier(b: Builder, mixed: Val, row: Val) -> None:
    field = {
        at: b.load("i32", 0, b.at(row, at))
        for at in (
            SlotFields.ARRIVED,
            SlotFields.WEIGHT,
            SlotFields.EXPECTED,
            SlotFields.POPC,
            SlotFields.GENERATION,
        )
    }
    _mix_pair(b, mixed, field[SlotFields.ARRIVED], field[SlotFields.WEIGHT])
    _mix_pair(b, mixed, field[SlotFields.EXPECTED], field[SlotFields.POPC])
    for later in (0, 1):  # the results of the last two generations
        at = ((field[SlotFields.GENERATION] + later) & 1) * 8 + SlotFields.RESULT
        _mix(b, mixed, b.load("i64", 0, b.at(row, at.zext("i64"))))


def _mix_frame(b: Builder, mixed: Val, slot: Val, frame: Val, frames: FrameLayout) -> None:
    _mix_words(b, mixed, frame, FrameFields.SEEN)
    seen = b.load("i32", 0, b.at(frame, FrameFields.SEEN))
    current = seen.eq(b.load("i32", 0, b.at(slot, SlotFields.RELEASES))).zext("i32")
    _mix_pair(b, mixed, current, b.load("i32", 0, b.at(frame, FrameFields.SITE)))
    after = FrameFields.ROTATE
    _mix_words(b, mixed, b.at(frame, after), (frames.waits_at - after) // 8 * 8)
    if frames.waits_at % 8:  # an odd number of pending masks
        _mix(b, mixed, b.load("i32", 0, b.at(frame, frames.waits_at - 4)).zext("i64"))
    with b.loop(frames.sites) as i:
        _mix_note(b, mixed, slot, b.at(frame, i.zext("i64") * _NOTE + frames.waits_at))
    rest = frames.waits_at + _NOTE * frames.sites
    rest = -(-rest // 8) * 8
    _mix_words(b, mixed, b.at(frame, rest), frames.nbytes - rest)


def _mix_note(b: Builder, mixed: Val, slot: Val, note: Val) -> None:
    """Lanes that wait at a barrier; where none wait, the row holds an earlier time's."""
    lanes, number, then = (b.load("i32", 0, b.at(note, at)) for at in (0, 4, 8))
    with b.when(lanes.ne(0)):
        row = b.at(slot, number.zext("i64") * SlotFields.BARRIER_BYTES + SlotFields.BARRIERS)
        now = b.load("i32", 0, b.at(row, SlotFields.GENERATION))
        _mix_pair(b, mixed, lanes, number)
        _mix_pair(b, mixed, now - then, number)
