"""Surface accesses: suld, sust, sured, suq, with handles of surface objects.

The first coordinate counts bytes. The last word of an opcode says what an access outside does:
`.trap` ends the launch, `.clamp` accesses the nearest element, `.zero` reads zeros and writes
nothing.
"""

from __future__ import annotations

from weft.ptx.isa.columns import Accepts, WorkUnit
from weft.ptx.isa.emitter import Warp
from weft.ptx.isa.registry import instruction
from weft.ptx.model import Instruction

GEOMETRY = "1d 2d 3d a1d a2d"
OUTSIDE = "trap clamp zero"
REDUCTIONS = "add min max and or"
"""The texture unit knows a reduction by its place in this list."""
_ACCEPTS = Accepts.FRAGMENT | Accepts.WIDER
_NOTE = "surface objects of whole programs and of `weft.surface`"


@instruction(
    "suld.b.geometry{.cop}{.vec}.type.outside  d:type, [a], c:s32",
    manual="surface-instructions-suld",
    work=WorkUnit.MEMORY,
    accepts=_ACCEPTS,
    notes=_NOTE,
    warp=True,
    geometry=GEOMETRY,
    cop="ca cg cs cv",
    vec="v2 v4",
    type="b8 b16 b32 b64",
    outside=OUTSIDE,
)
def suld(
    w: Warp, ins: Instruction, *, geometry: str, vec: str, type: str, outside: str, cop: str
) -> None:
    w.textures.load(ins, geometry, type, int(vec[1:] or 1), outside)


@instruction(
    "sust.b.geometry{.cop}{.vec}.type.outside  [a], c:s32, b:type",
    manual="surface-instructions-sust",
    work=WorkUnit.MEMORY,
    accepts=_ACCEPTS,
    notes=_NOTE,
    warp=True,
    geometry=GEOMETRY,
    cop="wb cg cs wt",
    vec="v2 v4",
    type="b8 b16 b32 b64",
    outside=OUTSIDE,
)
def sust(
    w: Warp, ins: Instruction, *, geometry: str, vec: str, type: str, outside: str, cop: str
) -> None:
    w.textures.store(ins, geometry, type, int(vec[1:] or 1), outside)


@instruction(
    "sured.b.op.geometry.type.outside  [a], c:s32, b:type",
    manual="surface-instructions-sured",
    work=WorkUnit.MEMORY,
    accepts=_ACCEPTS,
    notes=_NOTE,
    warp=True,
    op=REDUCTIONS,
    geometry=GEOMETRY,
    type="u32 s32 b32 u64 s64",
    outside=OUTSIDE,
)
def sured(w: Warp, ins: Instruction, *, op: str, geometry: str, type: str, outside: str) -> None:
    w.textures.reduce(ins, REDUCTIONS.split().index(op), geometry, type, outside)


@instruction(
    "suq.query.b32  d:b32, [a]",
    manual="surface-instructions-suq", work=WorkUnit.MEMORY, notes=_NOTE, warp=True,
    query="width height depth array_size",
)  # fmt: skip
def suq(w: Warp, ins: Instruction, *, query: str) -> None:
    w.textures.ask(ins, query)
