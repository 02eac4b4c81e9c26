"""Texture fetches: tex, tld4, txq, with handles of texture objects (unified mode).

An address is `[handle, {coordinates}]`; the parser makes two operands of it. The texture unit
(`w.textures`) is part of the runtime library of whole programs.
"""

from __future__ import annotations

from weft.ptx.isa.columns import Accepts, WorkUnit
from weft.ptx.isa.emitter import Warp
from weft.ptx.isa.registry import instruction
from weft.ptx.model import Instruction

GEOMETRY = "1d 2d 3d a1d a2d cube acube"
RESULT = "f32 s32 u32"
_ACCEPTS = Accepts.FRAGMENT | Accepts.BITS
_NOTE = "texture objects of whole programs and of `weft.texture`"


@instruction(
    "tex.geometry.v4.dtype.ctype  d|p:dtype, [a], c:ctype",
    manual="texture-instructions-tex",
    work=WorkUnit.MEMORY,
    accepts=_ACCEPTS,
    notes=_NOTE,
    warp=True,
    geometry=GEOMETRY,
    dtype=RESULT,
    ctype="f32 s32",
)
def tex(w: Warp, ins: Instruction, *, geometry: str, dtype: str, ctype: str) -> None:
    w.textures.fetch(ins, "plain", geometry, dtype, ctype)


@instruction(
    "tex.level.geometry.v4.dtype.ctype  d|p:dtype, [a], c:ctype, lod:ctype",
    manual="texture-instructions-tex",
    work=WorkUnit.MEMORY,
    accepts=_ACCEPTS,
    notes=_NOTE,
    warp=True,
    geometry=GEOMETRY,
    dtype=RESULT,
    ctype="f32 s32",
)
def tex_level(w: Warp, ins: Instruction, *, geometry: str, dtype: str, ctype: str) -> None:
    w.textures.fetch(ins, "level", geometry, dtype, ctype)


@instruction(
    "tex.grad.geometry.v4.dtype.ctype  d|p:dtype, [a], c:ctype, dx:f32, dy:f32",
    manual="texture-instructions-tex",
    work=WorkUnit.MEMORY,
    accepts=_ACCEPTS,
    notes=_NOTE,
    warp=True,
    geometry=GEOMETRY,
    dtype=RESULT,
    ctype="f32",
)
def tex_grad(w: Warp, ins: Instruction, *, geometry: str, dtype: str, ctype: str) -> None:
    w.textures.fetch(ins, "gradient", geometry, dtype, ctype)


@instruction(
    "tld4.channel.2d.v4.dtype.f32  d|p:dtype, [a], c:f32",
    manual="texture-instructions-tld4",
    work=WorkUnit.MEMORY,
    accepts=_ACCEPTS,
    notes=_NOTE,
    warp=True,
    channel="r g b a",
    dtype=RESULT,
)
def tld4(w: Warp, ins: Instruction, *, channel: str, dtype: str) -> None:
    w.textures.fetch(ins, f"gather_{channel}", "2d", dtype, "f32")


@instruction(
    "txq.query.b32  d:b32, [a]",
    manual="texture-instructions-txq", work=WorkUnit.MEMORY, notes=_NOTE, warp=True,
    query="width height depth array_size num_mipmap_levels normalized_coords",
)  # fmt: skip
def txq(w: Warp, ins: Instruction, *, query: str) -> None:
    w.textures.ask(ins, query)
