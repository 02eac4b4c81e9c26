"""Reports device memory that a program does not free.

The source line is not known, only the call and the sequence number of the allocation.
"""

from __future__ import annotations

import ctypes
from dataclasses import replace

from weft.values.findings import Access, Finding


def leaks(source: str, library: ctypes.CDLL) -> list[Finding]:
    """Findings for unfreed device memory; one per call and size."""
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
    return list(groups.values())
