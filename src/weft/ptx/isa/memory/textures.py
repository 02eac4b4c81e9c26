"""Texture fetches: tex, tld4, txq, with handles of texture objects (unified mode).

An address is `[handle, {coordinates}]`; the parser makes two operands of it. The texture unit
(`w.textures`) is part of the runtime library of whole programs.
"""

from __future__ import annotations

import functools

from weft.ptx.isa.columns import Accepts, WorkUnit
from weft.ptx.isa.emitter import Warp
from weft.ptx.isa.registry import instruction
from weft.ptx.model import Instruction

GEOMETRY = "1d 2d 3d a1d a2d cube acube"
RESULT = "f32 s32 u32"
_texture = functools.partial(
    instruction,
    work=WorkUnit.MEMORY,
    notes="texture objects of whole programs and of `weft.texture`",
    warp=True,
)
_fetch = functools.partial(_texture, accepts=Accepts.FRAGMENT | Accepts.BITS, dtype=RESULT)
_tex = functools.partial(_fetch, manual="texture-instructions-tex", geometry=GEOMETRY)


@_tex("tex.geometry.v4.dtype.ctype  d|p:dtype, [a], c:ctype", ctype="f32 s32")
def tex(w: Warp, ins: Instruction, *, geometry: str, dtype: str, ctype: str) -> None:
    w.textures.fetch(ins, "plain", geometry, dtype, ctype)


@_tex("tex.level.geometry.v4.dtype.ctype  d|p:dtype, [a], c:ctype, lod:ctype", ctype="f32 s32")
def tex_level(w: Warp, ins: Instruction, *, geometry: str, dtype: str, ctype: str) -> None:
    w.textures.fetch(ins, "level", geometry, dtype, ctype)


@_tex("tex.grad.geometry.v4.dtype.ctype  d|p:dtype, [a], c:ctype, dx:f32, dy:f32", ctype="f32")
def tex_grad(w: Warp, ins: Instruction, *, geometry: str, dtype: str, ctype: str) -> None:
    w.textures.fetch(ins, "gradient", geometry, dtype, ctype)


@_fetch(
    "tld4.channel.2d.v4.dtype.f32  d|p:dtype, [a], c:f32",
    manual="texture-instructions-tld4",
    channel="r g b a",
)
def tld4(w: Warp, ins: Instruction, *, channel: str, dtype: str) -> None:
    w.textures.fetch(ins, f"gather_{channel}", "2d", dtype, "f32")


@_texture(
    "txq.query.b32  d:b32, [a]",
    manual="texture-instructions-txq",
    query="width height depth array_size num_mipmap_levels normalized_coords",
)
def txq(w: Warp, ins: Instruction, *, query: str) -> None:
    w.textures.query(ins, query)
