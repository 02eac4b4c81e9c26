"""Bulk copies of sm_90 between global and shared memory: cp.async.bulk, cp.reduce.async.bulk."""

from __future__ import annotations

from weft.ptx.isa.columns import (
    ANY_COUNT,
    Async,
    AsyncStep,
    Completion,
    Does,
    Waits,
    WorkUnit,
    mbarrier,
    reads,
    updates,
    writes,
)
from weft.ptx.isa.emitter import Warp
from weft.ptx.isa.registry import instruction
from weft.ptx.model import Imm, Instruction

_MOVE = "data-movement-and-conversion-instructions-"
_BULK, _REDUCE = _MOVE + "cp-async-bulk", _MOVE + "cp-reduce-async-bulk"
_BY_MBARRIER = Async(AsyncStep.ISSUE, Completion.MBARRIER)
_BY_GROUP = Async(AsyncStep.ISSUE, Completion.BULK_GROUP)
_NEAR, _HINT = "shared::cta shared::cluster", "L2::cache_hint"

_COUNTS_DOWN = mbarrier(Does.UPDATE, "mbar", "shared::cluster")
"""The effect of a completed copy: its bytes are subtracted from those that the mbarrier expects."""


@instruction(
    "cp.async.bulk.dst.global.mbarrier::complete_tx::bytes{.multicast}{.l2}  "
    "[a], [b], size, [mbar]{, mask}{, policy}",
    manual=_BULK, dst=_NEAR, multicast="multicast::cluster", l2=_HINT, warp=True,
    async_=_BY_MBARRIER,
    effects=(writes("a", "dst", "size"), reads("b", "global", "size"), _COUNTS_DOWN),
)  # fmt: skip
def bulk_load(w: Warp, ins: Instruction, **words: str) -> None:
    w.bulk.issue(ins)


@instruction(
    "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes  "
    "[a], [b], size, [mbar]",
    manual=_BULK,
    warp=True,
    async_=_BY_MBARRIER,
    effects=(writes("a", "shared::cluster", "size"), reads("b", "shared", "size"), _COUNTS_DOWN),
)
def bulk_between(w: Warp, ins: Instruction) -> None:
    w.bulk.issue(ins)


@instruction(
    "cp.async.bulk.global.shared::cta.bulk_group{.l2}  [a], [b], size{, policy}",
    manual=_BULK, l2=_HINT, warp=True, async_=_BY_GROUP,
    effects=(writes("a", "global", "size"), reads("b", "shared", "size")),
)  # fmt: skip
def bulk_store(w: Warp, ins: Instruction, **words: str) -> None:
    w.bulk.issue(ins)


@instruction(
    "cp.async.bulk.prefetch.L2.global{.l2}  [a], size{, policy}",
    work=WorkUnit.MEMORY,
    manual=_BULK + "-prefetch",
    l2=_HINT,
    warp=True,
)
def bulk_prefetch(w: Warp, ins: Instruction, **words: str) -> None:
    """A hint: it may name any address and changes nothing."""


@instruction(
    "cp.async.bulk.commit_group",
    work=WorkUnit.SYNC,
    manual=_BULK + "-commit-group",
    warp=True,
    async_=Async(AsyncStep.COMMIT, Completion.BULK_GROUP),
)
def bulk_commit(w: Warp, ins: Instruction) -> None:
    w.bulk.commit()


@instruction(
    "cp.async.bulk.wait_group{.read}  n",
    work=WorkUnit.SYNC,
    manual=_BULK + "-wait-group", warp=True, waits=Waits.COPIES,
    async_=Async(AsyncStep.WAIT, Completion.BULK_GROUP), literals={"n": ANY_COUNT},
)  # fmt: skip
def bulk_wait(w: Warp, ins: Instruction) -> None:
    groups = ins.operands[0]
    assert isinstance(groups, Imm), "the parser takes nothing else"
    w.bulk.wait(groups.value)


FAR_FORMS = {
    "add": "u32 s32 u64 f32 f64",
    "min max": "u32 s32 u64 s64 f16 bf16",
    "and or xor": "b32 b64",
    "inc dec": "u32",
}
"""Types of each operation on global memory."""

NEAR_FORMS = {"add min max": "u32 s32", "and or xor": "b32", "inc dec": "u32"}
"""The same on shared memory; `add.u64` is there too."""


def _reduce(w: Warp, ins: Instruction, **words: str) -> None:
    w.bulk.issue(ins)


_FAR_EFFECTS = (updates("a", "global", "size"), reads("b", "shared", "size"))
_NEAR_EFFECTS = (
    updates("a", "shared::cluster", "size"),
    reads("b", "shared", "size"),
    _COUNTS_DOWN,
)
_TO_GLOBAL = "cp.reduce.async.bulk.global.shared::cta.bulk_group{.l2}"
_TO_SHARED = "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"

for _op, _types in FAR_FORMS.items():
    instruction(
        f"{_TO_GLOBAL}.op.type  [a], [b], size{{, policy}}",
        manual=_REDUCE, l2=_HINT, op=_op, type=_types, warp=True,
        effects=_FAR_EFFECTS, async_=_BY_GROUP,
    )(_reduce)  # fmt: skip

instruction(
    f"{_TO_GLOBAL}.add.noftz.type  [a], [b], size{{, policy}}",
    manual=_REDUCE, l2=_HINT, type="f16 bf16", warp=True,
    effects=_FAR_EFFECTS, async_=_BY_GROUP,
)(_reduce)  # fmt: skip

for _op, _types in (*NEAR_FORMS.items(), ("add", "u64")):
    instruction(
        f"{_TO_SHARED}.op.type  [a], [b], size, [mbar]",
        manual=_REDUCE, op=_op, type=_types, warp=True,
        effects=_NEAR_EFFECTS, async_=_BY_MBARRIER,
    )(_reduce)  # fmt: skip
