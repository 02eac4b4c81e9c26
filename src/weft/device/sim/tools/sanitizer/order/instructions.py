"""The order that an instruction asks for: strong accesses, fences, releases."""

from __future__ import annotations

from weft.ptx.isa import decode
from weft.ptx.isa.columns import Ordering
from weft.ptx.model import Instruction


def is_strong(ins: Instruction) -> bool:
    return decode(ins).row.ordering is Ordering.STRONG


def is_fence(ins: Instruction) -> bool:
    return decode(ins).row.ordering is Ordering.FENCE


def is_release(ins: Instruction) -> bool:
    return decode(ins).order in ("release", "acq_rel")


def releases_lock(ins: Instruction) -> bool:
    """Return whether an access to an mbarrier releases: an arrival does, other steps do not."""
    d = decode(ins)
    return d.operation not in ("expect_tx", "complete_tx") and d.order != "relaxed"


def releases(ins: Instruction) -> bool:
    on_barrier = any(x.barrier for x in decode(ins).row.effects)
    return is_fence(ins) or on_barrier or is_release(ins)


def is_far(ins: Instruction) -> bool:
    """Return whether it is also for threads of other blocks."""
    return decode(ins).scope != "cta"
