"""rotary_cached: the heads of new tokens, turned; keys and values also go to a cache."""

from __future__ import annotations

from typing import Any

import torch

from weft.errors import ArgumentError
from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.checks import check_dtype
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.plan import Buffer, Plan, Pointer, Step
from weft.ops.families.rotary import model
from weft.ops.families.rotary.structs import Cached

NAME = "rotary_cached"
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
WARPS = 8
"""Warps of a block; each has a head."""
INPUTS = 9
"""Tensors that the op takes."""


def _check(
    qkv: Any, positions: Any, slots: Any, keys: Any, values: Any, cos: Any, sin: Any,
    q_weight: Any, k_weight: Any, heads: int, eps: float,
) -> None:  # fmt: skip
    name = f"weft.ops.{NAME}"
    check_dtype(NAME, "qkv", qkv, DTYPES)
    fits = keys.dim() == 4 and keys.shape == values.shape and keys.dtype is values.dtype
    fits = fits and keys.is_contiguous() and values.is_contiguous() and keys.dtype is qkv.dtype
    if not fits:
        raise ArgumentError(
            f"{name}: keys and values do not fit",
            got=f"keys {list(keys.shape)} {keys.dtype}, values {list(values.shape)}"
            f" {values.dtype}, qkv {qkv.dtype}",
            allowed="contiguous tensors [pages, keys of a page, heads, size] of the dtype of qkv",
        )
    tokens, (kv_heads, size) = qkv.shape[0], keys.shape[2:]
    if qkv.dim() != 2 or heads < 1 or qkv.shape[1] != (heads + 2 * kv_heads) * size:
        raise ArgumentError(
            f"{name}: qkv does not have {heads} + {kv_heads} + {kv_heads} heads of {size}",
            got=f"shape {list(qkv.shape)}",
            allowed=f"[tokens, {(heads + 2 * kv_heads) * size}]",
        )
    if qkv.stride(1) != 1:
        raise ArgumentError(
            f"{name}: the elements of a token are not contiguous",
            got=f"strides {list(qkv.stride())}",
            next="qkv.contiguous()",
        )
    for which, x in (("positions", positions), ("slots", slots)):
        if x.dtype is not torch.int32 or tuple(x.shape) != (tokens,) or not x.is_contiguous():
            raise ArgumentError(
                f"{name}: {which} must be a contiguous tensor of int32, [{tokens}]",
                got=f"{x.dtype} {list(x.shape)}",
            )
    _check_angles(name, cos, sin, size)
    for which, x in (("q_weight", q_weight), ("k_weight", k_weight)):
        if x is not None and (x.dtype is not qkv.dtype or tuple(x.shape) != (size,)):
            raise ArgumentError(
                f"{name}: {which} has {x.dtype} {list(x.shape)}, expected {qkv.dtype} [{size}]"
            )


def _check_angles(name: str, cos: Any, sin: Any, size: int) -> None:
    if cos is None and sin is None:
        return
    fits = cos is not None and sin is not None and cos.shape == sin.shape and cos.dim() == 2
    fits = fits and cos.dtype is sin.dtype is torch.float32 and 0 < 2 * cos.shape[1] <= size
    if not fits or not (cos.is_contiguous() and sin.is_contiguous()):
        shapes = ["none" if x is None else f"{x.dtype} {list(x.shape)}" for x in (cos, sin)]
        raise ArgumentError(
            f"{name}: cos and sin do not fit heads of {size}",
            got=f"cos {shapes[0]}, sin {shapes[1]}",
            allowed=f"two contiguous tensors of float32 [positions, n], n at most {size // 2}",
        )


def _candidates(request: Request) -> list[Candidate]:
    x, keys, cos = request.first, request.inputs[3], request.inputs[5]
    assert keys is not None
    heads, (kv_heads, size) = request.options["heads"], keys.shape[2:]
    tokens = x.shape[0]
    outputs = tuple(Buffer((tokens, n, size), x.dtype) for n in (heads, kv_heads, kv_heads))
    if not tokens:
        return [Candidate("empty", 0.0, "no tokens", lambda: Plan((), outputs))]
    pairs = 0 if cos is None else cos.shape[1]
    cached = Cached(tokens, x.strides[0], heads, kv_heads, size, pairs, request.options["eps"])

    def build() -> Plan:
        name = source.template("rotate_cached", source.ctype(x.dtype))
        kernel = source.kernel("rotary/cached.cu", name, **Cached.define())
        given = [None if t is None else Pointer(i) for i, t in enumerate(request.inputs)]
        made = [Pointer(INPUTS + i) for i in range(3)]
        grid = (cdiv(tokens * (heads + 2 * kv_heads), WARPS),)
        args = (*given, *made, cached.pack())
        return Plan((Step(kernel, grid, (32 * WARPS,), args, early=True),), outputs)

    time = model.stream_time(request.target, 3 * x.numel * x.itemsize)
    return [Candidate("warp per head", time, f"{tokens} tokens", build)]


def _fake(
    qkv: Any, positions: Any, slots: Any, keys: Any, values: Any, cos: Any, sin: Any,
    q_weight: Any, k_weight: Any, heads: int, eps: float,
) -> Any:  # fmt: skip
    kv_heads, size = keys.shape[2:]
    return tuple(qkv.new_empty((qkv.shape[0], n, size)) for n in (heads, kv_heads, kv_heads))


DEFINITIONS = (
    Definition(
        name=NAME,
        schema="(Tensor qkv, Tensor positions, Tensor slots, Tensor(a!) keys, Tensor(b!) values,"
        " Tensor? cos, Tensor? sin, Tensor? q_weight, Tensor? k_weight, int heads, float eps)"
        " -> (Tensor, Tensor, Tensor)",
        doc="""Queries, keys and values [tokens, heads, size] of packed ones [tokens, all heads].

        Queries and keys are divided by the root of their mean square if there is a weight, and
        turned by row positions[t] of cos and sin. Keys and values are also stored in row slots[t]
        of keys and values, [pages, keys of a page, heads, size]; a slot below 0 stores nothing.
        """,
        fake=_fake,
        candidates=_candidates,
        check=_check,
        autocast=None,
        public=False,
    ),
)
