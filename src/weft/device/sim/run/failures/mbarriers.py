"""The state of an mbarrier that a deadlocked warp waits for, and the errors of wrong steps."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np

from weft.device.sim.layout import SlotFields
from weft.device.sim.memory.mbarrier_ledger import PHASE_BITS, RANK_AT, LedgerRow
from weft.device.sim.memory.mbarriers import BYTES_AT, BYTES_WIDTH, COUNT, EXPECTED_AT, Misuse
from weft.device.sim.run.arena import Arena
from weft.errors import DeviceError

_LEAST = -COUNT


def awaited(arena: Arena, worker: int, slot: int, warp: int, line: Callable[[int], str]) -> str:
    """The barrier that a warp last tested in vain: its arrivals, its bytes, and who sends them."""
    info = arena.info
    words = arena.slot(worker, slot)
    frames = words.view(np.uint8)[SlotFields.FRAMES :]
    if info.tested_at < 0:
        return ""
    at = warp * info.frame_bytes + info.tested_at
    address = int(frames[at : at + 8].view(np.int64)[0])
    fields = words.view(np.int64)
    start, size = (int(fields[x // 8]) for x in (SlotFields.SHARED, SlotFields.SHARED_BYTES))
    # An address outside is a barrier of another block.
    if not start <= address <= start + size - 8:
        return ""
    word = int.from_bytes(ctypes.string_at(address, 8), "little")
    pending, expected = word & COUNT, word >> EXPECTED_AT & COUNT
    where = f" at byte {address - start}"
    if not expected:
        return f"{where}, which is not initialised"
    parts = [f"{pending} of {expected} arrivals are pending"]
    if info.ledger_at >= 0:
        ledger = words.ctypes.data
        if info.clusters:  # the first block has the ledger
            ledger = int(fields[SlotFields.GROUP // 8])
        ledger += SlotFields.FRAMES + info.ledger_at
        parts += _bytes(ledger, address, word, line)
    elif missing := _signed(word):
        parts.append(f"{missing} bytes are missing")
    return f"{where}: " + ", ".join(parts) + "; it waits"


def _bytes(ledger: int, address: int, word: int, line: Callable[[int], str]) -> list[str]:
    """The bytes of the current phase, and the lines that expect and send them."""
    number = ((address >> 3) ^ (address >> RANK_AT)) % LedgerRow.ROWS
    at = ledger + number * LedgerRow.SIZE
    row = np.frombuffer(ctypes.string_at(at, LedgerRow.SIZE), np.uint8)
    longs, words = row.view(np.int64), row.view(np.int32)
    if int(longs[LedgerRow.ADDRESS // 8]) != address:  # another barrier has taken the row
        return [f"{missing} bytes are missing"] if (missing := _signed(word)) else []
    same = int(longs[LedgerRow.PHASE // 8]) == word >> PHASE_BITS
    expected, arrived = (
        int(longs[x // 8]) if same else 0 for x in (LedgerRow.EXPECTED, LedgerRow.ARRIVED)
    )
    armed, copied = (int(words[x // 4]) for x in (LedgerRow.ARMED, LedgerRow.COPIED))
    parts = [f"{expected} bytes are expected", f"{arrived} have arrived"]
    parts.append(f"last armed at {line(armed)}" if armed >= 0 else "nothing has armed it")
    parts.append(f"last copy at {line(copied)}" if copied >= 0 else "no copy reports to it")
    return parts


def _signed(word: int) -> int:
    """The bytes that are on their way."""
    value = word >> BYTES_AT & ((1 << BYTES_WIDTH) - 1)
    return value - (value >> (BYTES_WIDTH - 1) << BYTES_WIDTH)


def misuse(kernel: str, line: str, why: int, number: int, got: str) -> DeviceError:
    """The error for a step that an mbarrier does not allow."""
    what, allowed, advice = {
        Misuse.COUNT: (
            f"initialises an mbarrier for {number} arrivals",
            f"1 to {COUNT}",
            "count the threads that arrive in each phase",
        ),
        Misuse.ARRIVALS: (
            f"arrives at an mbarrier more often than its {number} pending arrivals",
            "as many arrivals in a phase as mbarrier.init says",
            "compare its count with the threads that arrive in a phase",
        ),
        Misuse.BYTES: (
            f"leaves an mbarrier with {number} bytes on their way",
            f"{_LEAST} to {COUNT} bytes",
            "expect the bytes of one stage at a time; a copy of 1 MiB needs two barriers",
        ),
    }[why]
    return DeviceError(f"{kernel} {what}", where=line, got=got, allowed=allowed, next=advice)
