"""Facts about a kernel's code that its launches need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class CodeInfo:
    """Sizes of the memory that compiled code works in, and what it uses.

    frame_bytes, slot_bytes  of a warp and of a resident block (see `layout`)
    sites                    memory instructions that keep a window (see `memory.windows`)
    waits                    whether loops may be waiting for another thread
    """

    warps: int
    threads: int
    frame_bytes: int
    slot_bytes: int
    sites: int
    shared_bytes: int
    local_bytes: int
    loops: bool
    waits: bool
    calls_host: bool
    grid_barrier: bool
    """True if it uses a barrier of the whole grid."""
    ledger_at: int = -1
    tested_at: int = -1
    """Offsets in a frame of what `memory.mbarrier_ledger` keeps there; -1 for nothing."""
    clusters: bool = False
    """True if it names other blocks of its cluster."""
    warpgroups: bool = False
    """True if it waits for products of warpgroups."""
    awaits_host: bool = True
    """True if a loop may wait for memory that the host can write."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """Data about the code for its observer."""
