"""Copies that go on by themselves, and the barriers in shared memory that wait for them."""

from __future__ import annotations

from weft.ptx.isa.columns import (
    ANY_COUNT,
    Async,
    AsyncStep,
    Completion,
    Does,
    Ordering,
    ResultForm,
    Waits,
    WorkUnit,
    mbarrier,
    reads,
    writes,
)
from weft.ptx.isa.emitter import Warp
from weft.ptx.isa.registry import instruction
from weft.ptx.model import Imm, Instruction

_COPY = "data-movement-and-conversion-instructions-cp-async"
_BARRIER = "parallel-synchronization-and-communication-instructions-mbarrier-"
_SHARED = "shared shared::cta shared::cluster"
_ORDER, _SCOPE = "relaxed acquire release", "cta cluster"


@instruction(
    "cp.async.cop.dst.global{.l2}{.prefetch}  [a], [b], size{, src_size}{, policy}",
    manual=_COPY,
    literals={"size": (4, 8, 16)},
    cop="ca cg", dst=_SHARED, l2="L2::cache_hint", prefetch="L2::64B L2::128B L2::256B",
    # The rest of `size` beyond `src_size` is filled with zeros: it is written, but not read.
    warp=True, effects=(writes("a", "dst", "size"), reads("b", "global", "src_size")),
    async_=Async(AsyncStep.ISSUE, Completion.GROUP),
)  # fmt: skip
def cp_async(w: Warp, ins: Instruction, **words: str) -> None:
    w.copies.issue(ins)


@instruction(
    "cp.async.commit_group",
    work=WorkUnit.SYNC,
    manual=_COPY + "-commit-group",
    warp=True,
    async_=Async(AsyncStep.COMMIT, Completion.GROUP),
)
def commit_group(w: Warp, ins: Instruction) -> None:
    w.copies.commit()


@instruction(
    "cp.async.wait_group  n",
    work=WorkUnit.SYNC,
    manual=_COPY + "-wait-group",
    warp=True,
    waits=Waits.COPIES,
    async_=Async(AsyncStep.WAIT, Completion.GROUP),
    literals={"n": ANY_COUNT},
)
def wait_group(w: Warp, ins: Instruction) -> None:
    groups = ins.operands[0]
    assert isinstance(groups, Imm), "the parser takes nothing else"
    w.copies.wait(groups.value)


@instruction(
    "cp.async.wait_all",
    work=WorkUnit.SYNC,
    manual=_COPY + "-wait-group",
    warp=True,
    waits=Waits.COPIES,
    async_=Async(AsyncStep.WAIT, Completion.GROUP),
)
def wait_all(w: Warp, ins: Instruction) -> None:
    w.copies.wait(None)


@instruction(
    "cp.async.mbarrier.arrive{.noinc}{.space}.b64  [a]",
    work=WorkUnit.SYNC,
    manual="parallel-synchronization-and-communication-instructions-cp-async-mbarrier-arrive",
    noinc="noinc", space=_SHARED, warp=True, effects=(mbarrier(Does.UPDATE, "a", "space"),),
    async_=Async(AsyncStep.ARRIVE, Completion.MBARRIER),
)  # fmt: skip
def cp_async_mbarrier_arrive(w: Warp, ins: Instruction, *, noinc: str, space: str) -> None:
    """Complete the copies at once. Without .noinc the arrival was first added to those expected."""
    w.copies.wait(None)
    w.mbarriers.step(ins, "arrive" if noinc else "arrive.inc", ins.operands[0], 1, space)


@instruction(
    "mbarrier.init{.space}.b64  [a], count",
    work=WorkUnit.SYNC, ordering=Ordering.STRONG,
    manual=_BARRIER + "init",
    space=_SHARED, warp=True, effects=(mbarrier(Does.WRITE, "a", "space"),),
)  # fmt: skip
def mbarrier_init(w: Warp, ins: Instruction, *, space: str) -> None:
    mem, count = ins.operands
    w.mbarriers.step(ins, "init", mem, count, space)


@instruction(
    "mbarrier.inval{.space}.b64  [a]",
    work=WorkUnit.SYNC, ordering=Ordering.STRONG,
    manual=_BARRIER + "inval",
    space=_SHARED, warp=True, effects=(mbarrier(Does.WRITE, "a", "space"),),
)  # fmt: skip
def mbarrier_inval(w: Warp, ins: Instruction, *, space: str) -> None:
    w.mbarriers.step(ins, "inval", ins.operands[0], 0, space)


@instruction(
    "mbarrier.op{.tail}{.order}{.scope}{.space}.b64  d, [a]{, count}",
    work=WorkUnit.SYNC, ordering=Ordering.STRONG,
    manual=_BARRIER + "arrive",
    op="arrive arrive_drop", tail="noComplete", order=_ORDER, scope=_SCOPE, space=_SHARED,
    warp=True, effects=(mbarrier(Does.UPDATE, "a", "space"),),
)  # fmt: skip
def mbarrier_arrive(
    w: Warp, ins: Instruction, *, op: str, tail: str, space: str, **words: str
) -> None:
    dest, mem, *count = ins.operands
    step = f"{op}.{tail}" if tail else op
    w.mbarriers.arrive(ins, step, mem, count[0] if count else 1, space, dest)


@instruction(
    "mbarrier.op.expect_tx{.order}{.scope}{.space}.b64  d, [a], tx",
    work=WorkUnit.SYNC, ordering=Ordering.STRONG,
    manual=_BARRIER + "arrive",
    op="arrive arrive_drop", order=_ORDER, scope=_SCOPE, space=_SHARED,
    warp=True, effects=(mbarrier(Does.UPDATE, "a", "space"),),
)  # fmt: skip
def mbarrier_arrive_expect(w: Warp, ins: Instruction, *, op: str, space: str, **words: str) -> None:
    dest, mem, nbytes = ins.operands
    w.mbarriers.arrive(ins, f"{op}.expect_tx", mem, nbytes, space, dest)


@instruction(
    "mbarrier.op{.order}{.scope}{.space}.b64  [a], tx",
    work=WorkUnit.SYNC, ordering=Ordering.STRONG,
    manual=_BARRIER + "expect-tx",
    op="expect_tx complete_tx", order=_ORDER, scope=_SCOPE, space=_SHARED,
    warp=True, effects=(mbarrier(Does.UPDATE, "a", "space"),),
)  # fmt: skip
def mbarrier_tx(w: Warp, ins: Instruction, *, op: str, space: str, **words: str) -> None:
    mem, nbytes = ins.operands
    w.mbarriers.step(ins, op, mem, nbytes, space)


@instruction(
    "mbarrier.op{.parity}{.order}{.scope}{.space}.b64  p, [a], state{, hint}",
    form=ResultForm.OF_OPERANDS, work=WorkUnit.SYNC, ordering=Ordering.STRONG,
    manual=_BARRIER + "test-wait-try-wait",
    op="test_wait try_wait", parity="parity", order=_ORDER, scope=_SCOPE, space=_SHARED,
    warp=True, effects=(mbarrier(Does.READ, "a", "space"),), waits=Waits.MBARRIER,
)  # fmt: skip
def mbarrier_test(
    w: Warp, ins: Instruction, *, op: str, parity: str, space: str, **words: str
) -> None:
    w.mbarriers.test(ins, space, parity=bool(parity))


@instruction(
    "mbarrier.pending_count.b64  d, state",
    work=WorkUnit.SYNC,
    ordering=Ordering.STRONG,
    manual=_BARRIER + "pending-count",
    warp=True,
)
def mbarrier_pending_count(w: Warp, ins: Instruction) -> None:
    w.mbarriers.pending_count(ins)
