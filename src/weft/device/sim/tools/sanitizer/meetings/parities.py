"""Waits for an mbarrier with the wrong parity: they pass at once, or never.

`test_wait.parity` with parity P passes while the current phase has the other parity. Such a wait is
wrong if the warp has arrived in the current phase, which is not complete. A wait that has not
passed is recorded; it was wrong if the launch is deadlocked, nothing has arrived in the phase that
it waits for, and the warp's last wait at this mbarrier was not for the phase before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from weft.device.sim.access import MemoryAccess
from weft.device.sim.analyse.program import KernelProgram
from weft.device.sim.layout import SlotFields
from weft.device.sim.memory.mbarriers import (
    BEGUN,
    BYTES,
    COUNT,
    EXPECTED_AT,
    PAIRS_AT,
    PHASE_AT,
    WORD,
)
from weft.device.sim.tools.sanitizer.checking import Checking
from weft.device.sim.tools.sanitizer.layout import BlockState, FindingKind
from weft.device.sim.tools.sanitizer.order.words import put, word
from weft.device.sim.tools.sanitizer.report import report
from weft.ir import Builder, Val
from weft.ptx.isa import decode
from weft.ptx.isa.columns import Waits
from weft.ptx.model import Instruction

_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)
PARITY, WRONG = 1 << 32, 1 << 33
"""Bits beside a record in a note: the parity that a wait is for, and whether it looks wrong."""


def is_used(program: KernelProgram) -> bool:
    """Return whether threads wait for parities."""
    return any(_is_wait(i) for block in program.graph.blocks for i in block.code)


def _is_wait(ins: Instruction) -> bool:
    d = decode(ins)
    return d.row.waits is Waits.MBARRIER and bool(d.words.get("parity"))


def _is_arrival(ins: Instruction) -> bool:
    """Return whether threads themselves arrive, not copies that have completed."""
    d = decode(ins)
    return d.operation in ("arrive", "arrive_drop") and any(x.barrier for x in d.row.effects)


class Parities:
    """The code that records arrivals and waits of each warp, and checks the parity of a wait."""

    def __init__(self, w: Checking, used: bool) -> None:
        self.w, self.used = w, used

    def started(self, b: Builder, slot: Val) -> None:
        """A block starts: its warps have neither arrived nor waited."""
        if self.used:
            p = b.load("ptr", 0, b.at(slot, SlotFields.OBSERVER))
            with b.loop(self.w.clocks.warps * (BlockState.WAITS // 8)) as i:
                put(b, b.integer("i64", 0), b.at(p, (i.zext("i64") << 3) + self.w.layout.waits))

    def access(self, access: MemoryAccess, lanes: Val) -> None:
        """Lanes are about to arrive at an mbarrier, or to test it."""
        e, b = self.w.e, self.w.e.b
        waits = _is_wait(access.ins)
        if not self.used or not (waits or _is_arrival(access.ins)):
            return
        with b.when(lanes.ne(0)):
            lane = b.intrinsic("cttz", [lanes], extra="false") & 31
            table = e.memory.addresses(access.address)
            address = word(b, b.at(table, lane.zext("i64") << 3))
            parity = b.integer("i32", 0)
            if waits:
                parity = e.read(access.ins.operands[2], "u32")
                parity = b.extract(parity, lane) if parity.lanes else parity
            body = self._wait if waits else self._arrive
            name = f"sanitizer_mbarrier_{'wait' if waits else 'arrive'}"
            fn = b.helper(name, [_P, _I32, _I64, _I64, _I64], None, body)
            fn(e.slot, e.warp, address, self.w.me(lanes), (parity & 1).zext("i64"))

    def _arrive(self, x: Builder, args: list[Val]) -> None:
        slot, warp, address, _, _ = args
        row, state = self._row(x, slot, warp), self._state(x, slot, address)
        put(x, address | (state >> PAIRS_AT), x.at(row, _entry(address)), BlockState.ARRIVALS)

    def _wait(self, x: Builder, args: list[Val]) -> None:
        slot, warp, address, me, parity = args
        p = x.load("ptr", 0, x.at(slot, SlotFields.OBSERVER))
        row, state = self._row(x, slot, warp), self._state(x, slot, address)
        phase, entry = state >> PHASE_AT, x.at(row, _entry(address))
        arrived = word(x, entry, BlockState.ARRIVALS).eq(address | (state >> PAIRS_AT))
        with x.when(arrived ^ 1):  # in a phase that is complete, if in any
            put(x, x.integer("i64", 0), entry, BlockState.ARRIVALS)
        with x.when(phase.ne(parity)):
            with x.when(arrived, rare=True):
                both = parity | (phase << 1)
                report(x, p, FindingKind.PARITY_PASSES, me, x.integer("i64", 0), both)
            put(x, x.integer("i64", 0), row, BlockState.WAIT)
            put(x, address | parity, entry, BlockState.PASSES)
            x.ret()
        idle = (state & COUNT).eq((state >> EXPECTED_AT) & COUNT) & (state & BYTES).eq(0)
        next_one = word(x, entry, BlockState.PASSES).eq((address | parity) ^ 1)
        wrong = idle & (state & BEGUN).ne(0) & (next_one ^ 1)
        note = me | (parity << 32) | (wrong.zext("i64") << 33)
        put(x, note, row, BlockState.WAIT)

    def _row(self, x: Builder, slot: Val, warp: Val) -> Val:
        p = x.load("ptr", 0, x.at(slot, SlotFields.OBSERVER))
        return x.at(p, warp.zext("i64") * BlockState.WAITS + self.w.layout.waits)

    def _state(self, x: Builder, slot: Val, address: Val) -> Val:
        """The mbarrier as it is now; a wrong address is reported by the access itself."""
        rel = address - word(x, slot, SlotFields.SHARED)
        inside = (rel + (WORD - 1)).ult(word(x, slot, SlotFields.SHARED_BYTES)) & (address & 7).eq(
            0
        )
        with x.when((inside & rel.ult(word(x, slot, SlotFields.SHARED_BYTES))) ^ 1):
            x.ret()
        return word(x, x.val("ptr", 0, f"inttoptr {address.typed} to ptr"))


def _entry(address: Val) -> Val:
    """The position of an mbarrier's notes in a warp's row; mbarriers may share one."""
    return ((address >> 3) & (BlockState.MBARRIERS - 1)) << 3


def stuck(
    slots: Sequence[NDArray[np.uint8]], layout: BlockState, warps: int
) -> Iterator[tuple[int, int]]:
    """(block, note) of the waits that look wrong, of a launch that is deadlocked."""
    for memory in slots:
        words = memory[: len(memory) // 8 * 8].view(np.int64)
        for warp in range(warps):
            note = int(words[(layout.waits + warp * BlockState.WAITS + BlockState.WAIT) // 8])
            if note & WRONG:
                yield int(words[BlockState.BLOCK // 8]), note
