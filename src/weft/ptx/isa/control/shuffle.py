"""Instructions through which the lanes of a warp see each other."""

from __future__ import annotations

from weft.ptx.isa.columns import Nan, ResultForm, WorkUnit
from weft.ptx.isa.emitter import Warp
from weft.ptx.isa.registry import instruction
from weft.ptx.model import Instruction

_DATA = "data-movement-and-conversion-instructions-"
_SYNC = "parallel-synchronization-and-communication-instructions-"


@instruction(
    "shfl.sync.mode.b32  d|p:b32, a:b32, b, c, membermask",
    form=ResultForm.SHUFFLED,
    work=WorkUnit.MOVE,
    nans=Nan.COPIED,
    manual=_DATA + "shfl-sync",
    mode="up down bfly idx",
    warp=True,
)
def shfl_sync(w: Warp, ins: Instruction, *, mode: str) -> None:
    w.across.shuffle(ins, mode)


@instruction(
    "shfl.mode.b32  d|p:b32, a:b32, b, c",
    form=ResultForm.SHUFFLED,
    work=WorkUnit.MOVE,
    nans=Nan.COPIED,
    manual=_DATA + "shfl-deprecated",
    mode="up down bfly idx",
    warp=True,
)
def shfl(w: Warp, ins: Instruction, *, mode: str) -> None:
    w.across.shuffle(ins, mode)


@instruction(
    "vote.sync.op.pred  p:pred, a:pred, membermask",
    form=ResultForm.OF_GROUP,
    work=WorkUnit.SYNC,
    manual=_SYNC + "vote-sync",
    op="all any uni",
    warp=True,
)
@instruction(
    "vote.op.pred  p:pred, a:pred",
    form=ResultForm.OF_GROUP,
    work=WorkUnit.SYNC,
    manual=_SYNC + "vote-deprecated",
    op="all any uni",
    warp=True,
)
def vote(w: Warp, ins: Instruction, *, op: str) -> None:
    w.across.vote(ins, op)


@instruction(
    "vote.sync.ballot.b32  d:b32, a:pred, membermask",
    form=ResultForm.OF_GROUP,
    work=WorkUnit.SYNC,
    manual=_SYNC + "vote-sync",
    warp=True,
)
@instruction(
    "vote.ballot.b32  d:b32, a:pred",
    form=ResultForm.OF_GROUP,
    work=WorkUnit.SYNC,
    manual=_SYNC + "vote-deprecated",
    warp=True,
)
def ballot(w: Warp, ins: Instruction) -> None:
    w.across.vote(ins, "ballot")


@instruction(
    "activemask.b32  d:b32",
    form=ResultForm.UNIFORM,
    work=WorkUnit.SYNC,
    manual=_SYNC + "activemask",
    warp=True,
)
def activemask(w: Warp, ins: Instruction) -> None:
    w.across.active_mask(ins)


@instruction(
    "match.op.sync.type  d|p:b32, a:type, membermask",
    work=WorkUnit.SYNC,
    manual=_SYNC + "match-sync",
    op="any all",
    type="b32 b64",
    warp=True,
)
def match(w: Warp, ins: Instruction, *, op: str, type: str) -> None:
    w.across.match(ins, op, type)


@instruction(
    "redux.sync.op.type  d:b32, a:b32, membermask",
    form=ResultForm.OF_GROUP,
    work=WorkUnit.SYNC,
    manual=_SYNC + "redux-sync",
    op="add min max",
    type="u32 s32",
    warp=True,
)
def redux(w: Warp, ins: Instruction, *, op: str, type: str) -> None:
    w.across.reduce(ins, op, signed=type == "s32")


@instruction(
    "redux.sync.op.b32  d:b32, a:b32, membermask",
    form=ResultForm.OF_GROUP,
    work=WorkUnit.SYNC,
    manual=_SYNC + "redux-sync",
    op="and or xor",
    warp=True,
)
def redux_bits(w: Warp, ins: Instruction, *, op: str) -> None:
    w.across.reduce(ins, op, signed=False)


@instruction(
    "elect.sync  d|p, membermask", work=WorkUnit.SYNC, manual=_SYNC + "elect-sync", warp=True
)
def elect(w: Warp, ins: Instruction) -> None:
    w.across.elect(ins)
