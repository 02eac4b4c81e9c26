"""Data movement: mov, ld, st, cvta and what concerns caches and state spaces."""

from __future__ import annotations

import functools

from weft.ptx.isa.columns import Accepts, Nan, Ordering, ResultForm, Waits, WorkUnit, reads, writes
from weft.ptx.isa.emitter import Warp
from weft.ptx.isa.registry import decode, instruction
from weft.ptx.model import Instruction

TYPES = "b8 b16 b32 b64 b128 u8 u16 u32 u64 s8 s16 s32 s64 f16 f16x2 bf16 bf16x2 f32 f64"
SCOPE = "cta cluster gpu sys"
SPACE = "const global local param shared shared::cta shared::cluster param::entry param::func"
COP = "ca cg cs lu cv nc wb wt"
L1 = "L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate"

_MOVES = Accepts.COUNTED | Accepts.WIDER
_LOADS = (reads("a", "space", "type*vec"),)
_STORES = (writes("a", "space", "type*vec"),)


@instruction(
    "mov.type  d:type, a:type",
    form=ResultForm.COPY,
    nans=Nan.COPIED,
    work=WorkUnit.MOVE,
    accepts=Accepts.PACK | Accepts.BITS | Accepts.FUNCTION,
    manual="data-movement-and-conversion-instructions-mov",
    type="pred b16 b32 b64 b128 u16 u32 u64 s16 s32 s64 f32 f64",
    warp=True,
)
def mov(w: Warp, ins: Instruction, *, type: str) -> None:
    w.move(ins, type)


@instruction(
    "ld{.weak}{.space}{.nc}{.cop}{.l1}{.l2}{.prefetch}{.vec}.type  d:type, [a]",
    form=ResultForm.LOADED, accepts=_MOVES,
    manual="data-movement-and-conversion-instructions-ld",
    space=SPACE, cop=COP, vec="v2 v4 v8", type=TYPES, warp=True, l1=L1, l2="L2::cache_hint",
    prefetch="L2::64B L2::128B L2::256B", effects=_LOADS,
)  # fmt: skip
@instruction(
    # A row of its own: a loop around an ordered load may wait for another thread's store and has to
    # yield; a loop around a weak load does not.
    "ld{.mmio}.order{.scope}{.space}{.nc}{.cop}{.l1}{.l2}{.prefetch}{.vec}.type  d:type, [a]",
    form=ResultForm.LOADED, accepts=_MOVES, ordering=Ordering.STRONG,
    manual="data-movement-and-conversion-instructions-ld",
    order="relaxed acquire volatile", scope=SCOPE, space=SPACE, cop=COP, vec="v2 v4 v8",
    type=TYPES, warp=True, l1=L1, l2="L2::cache_hint", prefetch="L2::64B L2::128B L2::256B",
    effects=_LOADS, waits=Waits.VALUE,
)  # fmt: skip
def ld(w: Warp, ins: Instruction, *, space: str, type: str, order: str = "", **hints: str) -> None:
    w.load(ins, space, type, order)


@instruction(
    "ldu{.space}{.vec}.type  d:type, [a]",
    form=ResultForm.LOADED, accepts=_MOVES,
    manual="data-movement-and-conversion-instructions-ldu",
    space="global", vec="v2 v4", type=TYPES, warp=True, effects=_LOADS,
)  # fmt: skip
def ldu(w: Warp, ins: Instruction, *, space: str, type: str, vec: str) -> None:
    w.load(ins, space, type, "")


@instruction(
    "st{.weak}{.space}{.cop}{.l1}{.l2}{.vec}.type  [a], b:type",
    accepts=_MOVES | Accepts.BITS,
    manual="data-movement-and-conversion-instructions-st",
    space=SPACE, cop=COP, vec="v2 v4 v8", type=TYPES, warp=True, l1=L1, l2="L2::cache_hint",
    effects=_STORES,
)  # fmt: skip
@instruction(
    "st{.mmio}.order{.scope}{.space}{.cop}{.l1}{.l2}{.vec}.type  [a], b:type",
    accepts=_MOVES | Accepts.BITS, ordering=Ordering.STRONG,
    manual="data-movement-and-conversion-instructions-st",
    order="relaxed release volatile", scope=SCOPE, space=SPACE, cop=COP, vec="v2 v4 v8",
    type=TYPES, warp=True, l1=L1, l2="L2::cache_hint", effects=_STORES,
)  # fmt: skip
def st(w: Warp, ins: Instruction, *, space: str, type: str, order: str = "", **hints: str) -> None:
    w.store(ins, space, type, order)


@instruction(
    "cvta{.to}.space.size  d:size, a",
    form=ResultForm.ADDRESS, work=WorkUnit.MOVE,
    manual="data-movement-and-conversion-instructions-cvta",
    space=SPACE, size="u32 u64", warp=True,
)  # fmt: skip
def cvta(w: Warp, ins: Instruction, *, space: str, size: str) -> None:
    w.convert_address(ins, space, to_space=decode(ins).from_generic)


@instruction(
    "isspacep.space  p:pred, a",
    form=ResultForm.OF_OPERANDS,
    work=WorkUnit.MOVE,
    manual="data-movement-and-conversion-instructions-isspacep",
    space=SPACE,
    warp=True,
)
def isspacep(w: Warp, ins: Instruction, *, space: str) -> None:
    w.test_space(ins, space)


_hint = functools.partial(instruction, work=WorkUnit.MEMORY, warp=True)
_PREFETCH = "data-movement-and-conversion-instructions-prefetch-prefetchu"


@_hint(
    "applypriority{.space}.L2::evict_normal  [a], size",
    manual="data-movement-and-conversion-instructions-applypriority",
    space="global",
)
@_hint(
    "discard{.space}.L2  [a], size",
    manual="data-movement-and-conversion-instructions-discard",
    space="global",
)
@_hint("prefetchu.L1  [a]", manual=_PREFETCH)
@_hint(
    "prefetch{.space}{.level}{.l2}{.tensormap}  [a]",
    manual=_PREFETCH,
    space="global local const param",
    level="L1 L2 L2::evict_last L2::evict_normal",
    l2="L2::cache_hint",
)
def cache_hint(w: Warp, ins: Instruction, **words: str) -> None:
    """Do nothing: a hint for a cache may name any address and changes no memory."""


_policy = functools.partial(
    instruction,
    form=ResultForm.UNIFORM,
    manual="data-movement-and-conversion-instructions-createpolicy",
    warp=True,
)
_priority = functools.partial(
    _policy,
    second="L2::evict_first L2::evict_unchanged",
    priority="L2::evict_last L2::evict_normal L2::evict_first L2::evict_unchanged",
)


@_priority("createpolicy.range{.global}.priority{.second}.b64  d, [a], primary, total")
@_priority("createpolicy.fractional.priority{.second}.b64  d{, a}")
@_policy("createpolicy.cvt.L2.b64  d, a")
def createpolicy(w: Warp, ins: Instruction, **words: str) -> None:
    """An opaque cache policy; nothing reads it but cache hints."""
    w.write(ins.operands[0], w.b.integer("i64", 0))
