"""Surface accesses: suld, sust, sured, suq, with handles of surface objects.

The first coordinate counts bytes. The last word of an opcode says what an access outside does:
`.trap` ends the launch, `.clamp` accesses the nearest element, `.zero` reads zeros and writes
nothing.
"""

from __future__ import annotations

import functools

from weft.ptx.isa.columns import Accepts, WorkUnit
from weft.ptx.isa.emitter import Warp
from weft.ptx.isa.registry import instruction
from weft.ptx.model import Instruction

GEOMETRY = "1d 2d 3d a1d a2d"
OUTSIDE = "trap clamp zero"
REDUCTIONS = "add min max and or"
"""The texture unit knows a reduction by its place in this list."""
_surface = functools.partial(
    instruction,
    work=WorkUnit.MEMORY,
    notes="surface objects of whole programs and of `weft.surface`",
    warp=True,
)
_access = functools.partial(
    _surface, accepts=Accepts.FRAGMENT | Accepts.WIDER, geometry=GEOMETRY, outside=OUTSIDE
)
_BITS = "b8 b16 b32 b64"


@_access(
    "suld.b.geometry{.cop}{.vec}.type.outside  d:type, [a], c:s32",
    manual="surface-instructions-suld",
    cop="ca cg cs cv",
    vec="v2 v4",
    type=_BITS,
)
def suld(
    w: Warp, ins: Instruction, *, geometry: str, vec: str, type: str, outside: str, cop: str
) -> None:
    w.textures.load(ins, geometry, type, int(vec[1:] or 1), outside)


@_access(
    "sust.b.geometry{.cop}{.vec}.type.outside  [a], c:s32, b:type",
    manual="surface-instructions-sust",
    cop="wb cg cs wt",
    vec="v2 v4",
    type=_BITS,
)
def sust(
    w: Warp, ins: Instruction, *, geometry: str, vec: str, type: str, outside: str, cop: str
) -> None:
    w.textures.store(ins, geometry, type, int(vec[1:] or 1), outside)


@_access(
    "sured.b.op.geometry.type.outside  [a], c:s32, b:type",
    manual="surface-instructions-sured",
    op=REDUCTIONS,
    type="u32 s32 b32 u64 s64",
)
def sured(w: Warp, ins: Instruction, *, op: str, geometry: str, type: str, outside: str) -> None:
    w.textures.reduce(ins, REDUCTIONS.split().index(op), geometry, type, outside)


@_surface(
    "suq.query.b32  d:b32, [a]",
    manual="surface-instructions-suq",
    query="width height depth array_size",
)
def suq(w: Warp, ins: Instruction, *, query: str) -> None:
    w.textures.query(ins, query)
