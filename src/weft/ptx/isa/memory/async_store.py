"""Asynchronous stores and reductions of sm_90 that an mbarrier completes: st.async, red.async.

The operation takes place when it is issued, and its bytes are taken off those that the mbarrier
expects. A program that waits for the mbarrier sees the same as on hardware.
"""

from __future__ import annotations

from weft.ptx.isa.columns import (
    Accepts,
    Async,
    AsyncStep,
    Completion,
    Does,
    mbarrier,
    updates,
    writes,
)
from weft.ptx.isa.emitter import Warp
from weft.ptx.isa.registry import instruction
from weft.ptx.model import SIZES, Instruction

_CLUSTER = "shared::cluster"
_BYTES = "mbarrier::complete_tx::bytes"
_ISSUED = Async(AsyncStep.ISSUE, Completion.MBARRIER)
_COUNTS_DOWN = mbarrier(Does.UPDATE, "mbar", _CLUSTER)


@instruction(
    f"st.async{{.weak}}{{.space}}{{.{_BYTES}}}{{.vec}}.type  [a], b:type, [mbar]",
    manual="data-movement-and-conversion-instructions-st-async",
    space=_CLUSTER, vec="v2 v4", type="b32 b64 u32 u64 s32 s64 f32 f64", warp=True,
    accepts=Accepts.COUNTED, async_=_ISSUED,
    effects=(writes("a", _CLUSTER, "type*vec"), _COUNTS_DOWN),
)  # fmt: skip
def st_async(w: Warp, ins: Instruction, *, type: str, vec: str, space: str) -> None:
    w.store(ins, _CLUSTER, type, "")
    nbytes = SIZES[type] * int(vec[1:] or 1)
    w.mbarriers.step(ins, "complete_tx", ins.operands[2], nbytes, _CLUSTER)


def _reduce(w: Warp, ins: Instruction, *, op: str, type: str, space: str) -> None:
    mem, value, barrier = ins.operands
    w.atomics.run(ins, None, mem, (value,), op=op, space=_CLUSTER, ptx_type=type)
    w.mbarriers.step(ins, "complete_tx", barrier, SIZES[type], _CLUSTER)


FORMS = {"add": "u32 s32 u64", "min max": "u32 s32", "and or xor": "b32", "inc dec": "u32"}
"""Types of each operation."""

for _op, _types in FORMS.items():
    instruction(
        f"red.async.relaxed.cluster{{.space}}.{_BYTES}.op.type  [a], b:type, [mbar]",
        manual="parallel-synchronization-and-communication-instructions-red-async",
        space=_CLUSTER, op=_op, type=_types, warp=True, async_=_ISSUED,
        effects=(updates("a", _CLUSTER, "type"), _COUNTS_DOWN),
    )(_reduce)  # fmt: skip
