"""For the sanitizer: memory that a program does not free, or frees wrongly.

The program's line is not known, only the call and which of its allocations it was.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace

from weft.device.sim import switch
from weft.device.sim.sanitizer.findings import Access, Finding
from weft.device.sim.sanitizer.session import Report

_TWICE, _UNKNOWN = "double free", "invalid free"


def misfreed(source: str, call: str, address: int, why: str) -> None:
    """Notes a free of what is not allocated."""
    kind = _TWICE if why == "was freed before" else _UNKNOWN
    access = Access(call, source, source, 0, None, None)
    _note([Finding(
        kind, f"{kind}: what is freed {why}", "", (access,), 1,
        "free each allocation once, by the call that belongs to what made it",
        f"{address:#x}", address,
    )])  # fmt: skip


def leaks(source: str, library: ctypes.CDLL) -> None:
    """Notes memory of the device that is still there; of one call and one size as one finding."""
    library.weft_unfreed.restype = ctypes.c_size_t
    count = library.weft_unfreed(None, None, 0)
    rows, calls = (ctypes.c_uint64 * (3 * count))(), (ctypes.c_char_p * count)()
    library.weft_unfreed(rows, calls, count)
    groups: dict[tuple[bytes, int], Finding] = {}
    for i in sorted(range(count), key=lambda i: rows[3 * i + 2]):
        address, size, order = rows[3 * i : 3 * i + 3]
        call = calls[i] or b""
        old = groups.get((call, size))
        if old is not None:
            groups[call, size] = replace(old, times=old.times + 1)
            continue
        access = Access(call.decode(), f"allocation {order} of {source}", source, 0, None, None)
        groups[call, size] = Finding(
            "leak", "leak: memory of the device that is never freed", "", (access,), 1,
            "free it before the program ends", f"{size:,} bytes at {address:#x}", address,
        )  # fmt: skip
    _note(list(groups.values()))


def _note(found: Sequence[Finding]) -> None:
    session = switch.active()
    if found and isinstance(session, Report):
        session.note(found)
