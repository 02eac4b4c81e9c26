"""Tensor copies of sm_90 (TMA): cp.async.bulk.tensor, its reductions and prefetches, tensormap.

An address is `[map, {coordinates}]`; the parser makes two operands of it. The tensor map says which
bytes of global memory a copy touches, so a row has no size: `box` stands for that of the map.
"""

from __future__ import annotations

import functools

from weft.ptx.isa.columns import (
    GENERIC,
    Accepts,
    Async,
    AsyncStep,
    Completion,
    Does,
    Ordering,
    Participants,
    WorkUnit,
    mbarrier,
    reads,
    updates,
    writes,
)
from weft.ptx.isa.emitter import Warp
from weft.ptx.isa.registry import instruction
from weft.ptx.model import Instruction

_MOVE = "data-movement-and-conversion-instructions-"
_DIMS, _SPACES = "1d 2d 3d 4d 5d", "3d 4d 5d"
_NEAR, _HINT = "shared::cta shared::cluster", "L2::cache_hint"
MAP_BYTES = 128
_MAP = reads("map", GENERIC, MAP_BYTES)

_copy = functools.partial(instruction, warp=True, accepts=Accepts.FRAGMENT, l2=_HINT)
_load = functools.partial(
    _copy,
    manual=_MOVE + "cp-async-bulk-tensor",
    async_=Async(AsyncStep.ISSUE, Completion.MBARRIER),
    effects=(writes("a", "dst", "box"), _MAP, mbarrier(Does.UPDATE, "mbar", "shared")),
    dst=_NEAR,
    multicast="multicast::cluster",
)
_LOAD = "cp.async.bulk.tensor.dim.dst.global"
_BYTES = "mbarrier::complete_tx::bytes{.multicast}{.l2}"


@_load(f"{_LOAD}{{.tile}}.{_BYTES}  [a], [map], at:s32, [mbar]{{, mask}}{{, policy}}", dim=_DIMS)
@_load(
    f"{_LOAD}.im2col.{_BYTES}  [a], [map], at:s32, [mbar], offsets:b16{{, mask}}{{, policy}}",
    dim=_SPACES,
)
def tensor_load(w: Warp, ins: Instruction, **words: str) -> None:
    w.tensors.issue(ins)


_STORED = Async(AsyncStep.ISSUE, Completion.BULK_GROUP)
_NEAR_SOURCE = reads("b", "shared", "box")
_store = functools.partial(
    _copy,
    manual=_MOVE + "cp-async-bulk-tensor",
    async_=_STORED,
    effects=(writes("map", GENERIC, "box"), _NEAR_SOURCE),
)


@_store(
    "cp.async.bulk.tensor.dim.global.shared::cta{.tile}.bulk_group{.l2}  "
    "[map], at:s32, [b]{, policy}",
    dim=_DIMS,
)
@_store(
    "cp.async.bulk.tensor.dim.global.shared::cta.im2col_no_offs.bulk_group{.l2}  "
    "[map], at:s32, [b]{, policy}",
    dim=_SPACES,
)
def tensor_store(w: Warp, ins: Instruction, **words: str) -> None:
    w.tensors.issue(ins)


for _mode, _dim in (("{.tile}", _DIMS), (".im2col_no_offs", _SPACES)):
    _copy(
        f"cp.reduce.async.bulk.tensor.dim.global.shared::cta.op{_mode}.bulk_group{{.l2}}  "
        "[map], at:s32, [b]{, policy}",
        manual=_MOVE + "cp-reduce-async-bulk-tensor",
        async_=_STORED,
        effects=(updates("map", GENERIC, "box"), _NEAR_SOURCE),
        dim=_dim,
        op="add min max inc dec and or xor",
    )(tensor_store)


@_copy(
    "cp.async.bulk.prefetch.tensor.dim.L2.global{.tile}{.l2}  [map], at:s32{, policy}",
    manual=_MOVE + "cp-async-bulk-prefetch-tensor",
    work=WorkUnit.MEMORY,
    dim=_DIMS,
)
@_copy(
    "cp.async.bulk.prefetch.tensor.dim.L2.global.im2col{.l2}  [map], at:s32, offsets:b16{, policy}",
    manual=_MOVE + "cp-async-bulk-prefetch-tensor",
    work=WorkUnit.MEMORY,
    dim=_SPACES,
)
def tensor_prefetch(w: Warp, ins: Instruction, **words: str) -> None:
    """Do nothing: a hint for a cache changes no memory."""


_replace = functools.partial(
    instruction,
    manual=_MOVE + "tensormap-replace",
    warp=True,
    space="global shared::cta",
    effects=(updates("a", "space", MAP_BYTES),),
)
_REPLACE = "tensormap.replace.tile.field{.space}.b1024.type"


@_replace(f"{_REPLACE}  [a], b:type", field="global_address", type="b64")
@_replace(
    f"{_REPLACE}  [a], b:type",
    field="rank elemtype interleave_layout swizzle_mode fill_mode",
    type="b32",
)
@_replace(
    f"{_REPLACE}  [a], number, b:type",
    field="box_dim global_dim element_stride",
    type="b32",
    literals={"number": (0, 1, 2, 3, 4)},
)
@_replace(
    f"{_REPLACE}  [a], number, b:type",
    field="global_stride",
    type="b64",
    literals={"number": (0, 1, 2, 3)},
)
def tensormap_replace(w: Warp, ins: Instruction, *, field: str, space: str, type: str) -> None:
    w.tensors.replace(ins, field, space, type)


@instruction(
    "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.scope.sync.aligned  "
    "[a], [b], size",
    manual=_MOVE + "tensormap-cp-fenceproxy",
    scope="cta cluster gpu sys", warp=True, participants=Participants.WARP, aligned=True,
    ordering=Ordering.PROXY_FENCE, literals={"size": (MAP_BYTES,)},
    effects=(writes("a", "global", MAP_BYTES), reads("b", "shared", MAP_BYTES)),
)  # fmt: skip
def tensormap_copy(w: Warp, ins: Instruction, *, scope: str) -> None:
    w.tensors.copy_map(ins)
    w.fence()
