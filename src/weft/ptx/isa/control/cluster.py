"""Clusters of blocks: their barrier, and addresses in the shared memory of their blocks."""

from __future__ import annotations

import functools

from weft.ptx.isa.columns import Ordering, Participants, ResultForm, Waits, WorkUnit
from weft.ptx.isa.emitter import Warp
from weft.ptx.isa.registry import instruction
from weft.ptx.model import Instruction

_barrier = functools.partial(
    instruction,
    manual="parallel-synchronization-and-communication-instructions-barrier-cluster",
    work=WorkUnit.SYNC, ordering=Ordering.STRONG, participants=Participants.CLUSTER, warp=True,
)  # fmt: skip


def _arrive(w: Warp, ins: Instruction, **words: str) -> None:
    w.cluster.arrive(ins)


def _wait(w: Warp, ins: Instruction, **words: str) -> None:
    w.cluster.wait(ins)


for _word in ("", ".aligned"):
    _barrier(
        f"barrier.cluster.arrive{{.order}}{_word}",
        order="release relaxed",
        waits=Waits.NOTHING,
        aligned=bool(_word),
    )(_arrive)
    _barrier(
        f"barrier.cluster.wait{{.order}}{_word}",
        order="acquire",
        waits=Waits.PARTICIPANTS,
        aligned=bool(_word),
    )(_wait)

_MOVE = "data-movement-and-conversion-instructions-"
_address = functools.partial(
    instruction, form=ResultForm.OF_OPERANDS, work=WorkUnit.MOVE, warp=True, peers=True
)


@_address("mapa{.space}.type  d:type, a, b", manual=_MOVE + "mapa",
          space="shared::cluster", type="u32 u64")  # fmt: skip
def mapa(w: Warp, ins: Instruction, *, space: str, type: str) -> None:
    w.cluster.map_address(ins, type, near=bool(space))


@_address("getctarank{.space}.type  d:u32, a", manual=_MOVE + "getctarank",
          space="shared::cluster", type="u32 u64")  # fmt: skip
def getctarank(w: Warp, ins: Instruction, *, space: str, type: str) -> None:
    w.cluster.rank_of(ins, type, near=bool(space))
