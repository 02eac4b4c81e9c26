"""The bytes that the phases of a block's mbarriers expect and have got, for deadlock reports.

The word of an mbarrier has only the difference of the two. The ledger is in the frame of the first
warp of a block, or of a cluster: a row for each barrier, found by its address. Another barrier with
the same row replaces it, which costs a part of a message. Each warp keeps the barrier that it last
tested in vain.
"""

from __future__ import annotations

from weft.device.sim.layout import CLUSTER_SHIFT, SlotFields
from weft.device.sim.memory.accessing import Accessing
from weft.device.sim.protocols import FrameSpace
from weft.ir import Builder, Val
from weft.ptx.isa import decode
from weft.ptx.isa.columns import Completion, Waits

_P, _I64 = ("ptr", 0), ("i64", 0)


class LedgerRow:
    """Fields of a row; the phase is the three highest bits of the barrier's word."""

    ADDRESS, PHASE, EXPECTED, ARRIVED, ARMED, COPIED = 0, 8, 16, 24, 32, 36
    SIZE = 40
    ROWS = 32


PHASE_BITS = 61
RANK_AT = CLUSTER_SHIFT - 2
"""Shifts the rank of a barrier's block so that four of its barriers have rows of their own."""
NOWHERE = -1
"""No instruction has done this."""


class BarrierLedger:
    """The ledger of a kernel under emission; empty where no barrier counts bytes."""

    def __init__(self, e: Accessing, frame: FrameSpace) -> None:
        self.e = e
        rows = [decode(ins).row for block in e.program.graph.blocks for ins in block.code]
        self.used = any(row.completes_by is Completion.MBARRIER for row in rows)
        self.tests = any(row.waits is Waits.MBARRIER for row in rows)
        size = LedgerRow.SIZE * LedgerRow.ROWS if self.used else 0
        self.at = frame.reserve(size, self._start)
        self.tested_at = frame.reserve(8 if self.tests else 0, self._start_tested)

    def _start(self) -> None:
        """No barrier has a row; other warps write to the first one's ledger."""
        if not self.e.timing.on:  # under a schedule the first warp need not start first
            self.clear(self.e.b, self.e.frame)

    def clear(self, b: Builder, frame: Val) -> None:
        """Empty the ledger in a frame."""
        for i in range(LedgerRow.ROWS if self.used else 0):
            b.store(b.integer("i64", 0), b.at(frame, self.at + LedgerRow.SIZE * i), 8)

    def _start_tested(self) -> None:
        if self.tests:
            self.e.b.store(self.e.b.integer("i64", 0), self.tested(), 8)

    def tested(self) -> Val:
        """The word of this warp's frame for the address of the barrier that it waits for."""
        return self.e.b.at(self.e.frame, self.tested_at)

    def rows(self) -> Val:
        """The ledger of the block."""
        return in_frames(self.e, self.at)


def in_frames(e: Accessing, at: int) -> Val:
    """The place that all warps of a block share; a cluster has one, in its first block's frames."""
    b = e.b
    if e.program.clusters:
        first = b.load("ptr", 0, b.at(e.slot, SlotFields.GROUP))
        return b.at(first, SlotFields.FRAMES + at)
    return b.at(e.frames, at)


def row_of(b: Builder, ledger: Val, barrier: Val, word: Val) -> Val:
    """The row of a barrier (a pointer), whose word was `word`; a new phase begins with no bytes."""

    def body(x: Builder, args: list[Val]) -> Val:
        rows, address, state = args
        slot = ((address >> 3) ^ (address >> RANK_AT)) & (LedgerRow.ROWS - 1)
        row, phase = x.at(rows, slot * LedgerRow.SIZE), state >> PHASE_BITS
        other = x.load("i64", 0, x.at(row, LedgerRow.ADDRESS), 8).ne(address)
        with x.when(other):
            nowhere = x.integer("i32", NOWHERE)
            x.store(address, x.at(row, LedgerRow.ADDRESS), 8)
            x.store(nowhere, x.at(row, LedgerRow.ARMED))
            x.store(nowhere, x.at(row, LedgerRow.COPIED))
        with x.when(other | x.load("i64", 0, x.at(row, LedgerRow.PHASE), 8).ne(phase)):
            x.store(phase, x.at(row, LedgerRow.PHASE), 8)
            for at in (LedgerRow.EXPECTED, LedgerRow.ARRIVED):
                x.store(x.integer("i64", 0), x.at(row, at), 8)
        return row

    address = b.val("i64", 0, f"ptrtoint {barrier.typed} to i64")
    return b.helper("ledger_row", [_P, _I64, _I64], _P, body)(ledger, address, word)


def note_expected(b: Builder, ledger: Val, barrier: Val, word: Val, nbytes: Val, site: Val) -> None:
    """Bytes are expected, by the instruction `site`."""
    row = row_of(b, ledger, barrier, word)
    _add(b, row, LedgerRow.EXPECTED, nbytes)
    b.store(site.trunc("i32"), b.at(row, LedgerRow.ARMED))


def note_arrived(b: Builder, ledger: Val, barrier: Val, word: Val, nbytes: Val) -> None:
    """Bytes have arrived."""
    _add(b, row_of(b, ledger, barrier, word), LedgerRow.ARRIVED, nbytes)


def note_copied(b: Builder, ledger: Val, barrier: Val, word: Val, site: Val) -> None:
    """A copy that reports to the barrier is issued, by the instruction `site`."""
    b.store(site.trunc("i32"), b.at(row_of(b, ledger, barrier, word), LedgerRow.COPIED))


def _add(b: Builder, row: Val, at: int, nbytes: Val) -> None:
    place = b.at(row, at)
    b.store(b.load("i64", 0, place, 8) + nbytes, place, 8)
