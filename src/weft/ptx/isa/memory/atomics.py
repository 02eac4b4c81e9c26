"""atom and red: read, change and write a location in memory as one step."""

from __future__ import annotations

from collections.abc import Callable

from weft.ptx.isa.columns import Accepts, Ordering, Waits, updates
from weft.ptx.isa.emitter import Warp
from weft.ptx.isa.registry import instruction
from weft.ptx.model import Instruction

_MANUAL = "parallel-synchronization-and-communication-instructions-"
_ORDER = "relaxed acquire release acq_rel"
_SCOPE = "cta cluster gpu sys"
_SPACE = "global shared shared::cta shared::cluster"
_HINT, _VECTORS = "L2::cache_hint", "v2 v4 v8"

_EFFECTS = (updates("a", "space", "type*vec"),)

FORMS = {
    "add": "u32 s32 u64 s64 f16 f16x2 bf16 bf16x2 f32 f64",
    "min max": "u32 s32 u64 s64 f16 f16x2 bf16 bf16x2",
    "and or xor": "b32 b64",
    "inc dec": "u32",
}
"""Operation -> its types, for both instructions."""

ATOM_FORMS = {"exch": "b32 b64 b128", "cas": "b16 b32 b64 b128"}
"""Operations that are useful only with their result. Locks are made of them."""

Row = Callable[..., None]


def _atom(w: Warp, ins: Instruction, *, op: str, space: str, type: str, **words: str) -> None:
    values = ins.operands[2:4] if op == "cas" else ins.operands[2:3]
    w.atomics.run(
        ins, ins.operands[0], ins.operands[1], values, op=op, space=_space(space), ptx_type=type
    )


def _red(w: Warp, ins: Instruction, *, op: str, space: str, type: str, **words: str) -> None:
    mem, value = ins.operands[:2]
    w.atomics.run(ins, None, mem, (value,), op=op, space=_space(space), ptx_type=type)


def _space(word: str) -> str:
    """`shared` is the block's own, as `shared::cta`."""
    return "shared" if word == "shared::cta" else word


_OPCODE = "{.order}{.scope}{.space}.op{.noftz}{.l2}{.vec}.type"

for _op, _types in (FORMS | ATOM_FORMS).items():
    instruction(
        f"atom{_OPCODE}  d:type, [a], b:type{{, c}}{{, policy}}",
        accepts=Accepts.FRAGMENT, ordering=Ordering.STRONG,
        manual=_MANUAL + "atom",
        order=_ORDER, scope=_SCOPE, space=_SPACE, op=_op, noftz="noftz", l2=_HINT, vec=_VECTORS,
        type=_types, warp=True, effects=_EFFECTS,
        waits=Waits.LOCK if _op in ATOM_FORMS else Waits.VALUE,
    )(_atom)  # fmt: skip

for _op, _types in FORMS.items():
    instruction(
        f"red{_OPCODE}  [a], b:type{{, policy}}",
        accepts=Accepts.FRAGMENT, ordering=Ordering.STRONG,
        manual=_MANUAL + "red",
        order=_ORDER, scope=_SCOPE, space=_SPACE, op=_op, noftz="noftz", l2=_HINT, vec=_VECTORS,
        type=_types, warp=True, effects=_EFFECTS,
    )(_red)  # fmt: skip
