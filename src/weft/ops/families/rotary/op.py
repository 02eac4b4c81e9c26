"""rotary and rotary_qkv: definitions, argument checks and gradients."""

from __future__ import annotations

import functools
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core import library
from weft.ops.core.checks import check_dtype
from weft.ops.core.function import Definition
from weft.ops.core.plan import Layout
from weft.ops.families.rotary import cached, plans

GROUP = "attention, embedding"
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


# ---- checks ------------------------------------------------------------------------------------
def _check_angles(name: str, x: Any, cos: Any, sin: Any, positions: int, size: int) -> None:
    if cos.dtype not in (torch.float32, x.dtype) or sin.dtype is not cos.dtype:
        raise ArgumentError(
            f"weft.ops.{name}: cos and sin have an unsupported dtype",
            got=f"cos {cos.dtype}, sin {sin.dtype}",
            allowed=f"both float32, or both {x.dtype}",
        )
    lead = tuple(cos.shape[:-1])
    fits = cos.dim() in (2, 3) and lead[-1] == positions and 0 < 2 * cos.shape[-1] <= size
    fits = fits and (cos.dim() == 2 or lead[0] in (1, x.shape[0])) and sin.shape == cos.shape
    if not fits:
        raise ArgumentError(
            f"weft.ops.{name}: cos and sin do not fit {positions} positions of heads of {size}",
            got=f"cos {list(cos.shape)}, sin {list(sin.shape)}",
            allowed=f"[{positions}, n] or [batch, {positions}, n], n at most {size // 2}",
        )


def _check_pairs(name: str, q: Any, k: Any, cos: Any, sin: Any, *_: Any) -> None:
    check_dtype(name, "q", q, DTYPES, next="convert it: q.float()")
    fits = q.dim() == k.dim() == 4 and q.shape[0] == k.shape[0] and q.shape[2:] == k.shape[2:]
    if not fits or k.dtype is not q.dtype or q.shape[3] % 2:
        raise ArgumentError(
            f"weft.ops.{name}: q and k do not fit",
            got=f"q {list(q.shape)} {q.dtype}, k {list(k.shape)} {k.dtype}",
            allowed="[batch, heads, positions, size] of one dtype, which differ in heads alone; "
            "an even size",
        )
    _check_angles(name, q, cos, sin, q.shape[2], q.shape[3])


def _check_packed(qkv: Any, cos: Any, sin: Any, heads: int, kv_heads: int | None, *_: Any) -> None:
    name = "rotary_qkv"
    check_dtype(name, "qkv", qkv, DTYPES, next="convert it: qkv.float()")
    counts = plans.head_counts(heads, kv_heads)
    fits = qkv.dim() == 3 and min(counts) > 0 and qkv.shape[2] % (2 * sum(counts)) == 0
    if not fits:
        raise ArgumentError(
            f"weft.ops.{name}: qkv does not have {' + '.join(map(str, counts))} heads",
            got=f"shape {list(qkv.shape)}",
            allowed="[batch, positions, (heads + 2 kv_heads) size] with an even size",
        )
    _check_angles(name, qkv, cos, sin, qkv.shape[1], qkv.shape[2] // sum(counts))


# ---- gradients ---------------------------------------------------------------------------------
def _refuse_angles(name: str, needed: Any) -> None:
    """Raise if a gradient of cos or sin is needed."""
    if any(needed):
        raise ArgumentError(
            f"weft.ops.{name}: there is no gradient of cos and sin",
            got="one that requires a gradient",
            next="cos.detach(), sin.detach()",
        )


def _setup_pairs(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[2:4])
    ctx.interleaved, ctx.dtype = inputs[4], inputs[0].dtype


def _backward_pairs(other: str, ctx: Any, dq: Any, dk: Any) -> Any:
    """Turn the gradients by the opposite angles."""
    _refuse_angles("rotary", ctx.needs_input_grad[2:4])
    grads = (g.to(ctx.dtype) for g in (dq, dk))
    found = library.call(other)(*grads, *ctx.saved_tensors, ctx.interleaved)
    return (*found, None, None, None)


def _setup_split(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[1:3])
    ctx.interleaved, ctx.dtype = inputs[5], inputs[0].dtype


def _backward_split(ctx: Any, *grads: Any) -> Any:
    _refuse_angles("rotary_qkv", ctx.needs_input_grad[1:3])
    join = library.call("rotary_qkv_backward")
    found = join(*(g.to(ctx.dtype) for g in grads), *ctx.saved_tensors, ctx.interleaved)
    return found, *[None] * 5


def _setup_join(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[3:5])
    ctx.interleaved, ctx.heads = inputs[5], [x.shape[1] for x in inputs[:2]]


def _backward_join(ctx: Any, grad: Any) -> Any:
    split = library.call("rotary_qkv")
    return *split(grad, *ctx.saved_tensors, *ctx.heads, ctx.interleaved), *[None] * 3


# ---- definitions -------------------------------------------------------------------------------
def _fake_like(x: Any) -> Any:
    made = plans.like(Layout(x.dtype, tuple(x.shape), tuple(x.stride()), 16))
    return x.new_empty_strided(made.shape, made.steps)


def _fake_split(
    qkv: Any, cos: Any, sin: Any, heads: int, kv_heads: int | None = None, interleaved: bool = False
) -> Any:
    counts = plans.head_counts(heads, kv_heads)
    batch, positions, width = qkv.shape
    return tuple(qkv.new_empty((batch, n, positions, width // sum(counts))) for n in counts)


def _fake_join(dq: Any, dk: Any, dv: Any, *rest: Any) -> Any:
    heads = sum(x.shape[1] for x in (dq, dk, dv))
    return dq.new_empty((dq.shape[0], dq.shape[2], heads * dq.shape[3]))


_ANGLES = "Tensor cos, Tensor sin"
_SHARED: dict[str, Any] = {"autocast": None}


def _pairs(name: str, other: str, back: bool) -> Definition:
    default = "" if back else "=False"
    return Definition(
        name=name,
        schema=f"(Tensor q, Tensor k, {_ANGLES}, bool interleaved{default}) -> (Tensor, Tensor)",
        doc="""Queries and keys with rotary embeddings, in one launch.

        q and k have shape [batch, heads, positions, size], in any memory order, with the same or
        another number of heads. cos and sin have the angles of positions: [positions, n] or
        [batch, positions, n]. The first 2 n elements of each head are turned in pairs: elements i
        and n + i, or neighbours if interleaved; others stay. The gradient is one launch.
        """
        if not back
        else "The same, turned back.",
        fake=lambda q, k, *rest: (_fake_like(q), _fake_like(k)),
        candidates=functools.partial(plans.pairs, back),
        check=functools.partial(_check_pairs, "rotary"),
        setup=_setup_pairs,
        backward=functools.partial(_backward_pairs, other),
        public=not back,
        **_SHARED,
    )


DEFINITIONS = (
    _pairs("rotary", "rotary_back", False),
    _pairs("rotary_back", "rotary", True),
    Definition(
        name="rotary_qkv",
        schema=f"(Tensor qkv, {_ANGLES}, int heads, int? kv_heads=None, bool interleaved=False)"
        " -> (Tensor, Tensor, Tensor)",
        doc="""Queries, keys and values of a packed tensor, with rotary embeddings, in one launch.

        qkv has shape [batch, positions, (heads + 2 kv_heads) size], as one product gives it: the
        heads of queries, then of keys, then of values; kv_heads is `heads` by default. The results
        have shape [batch, heads, positions, size]. cos, sin and interleaved are those of rotary.
        """,
        fake=_fake_split,
        candidates=plans.split,
        check=_check_packed,
        setup=_setup_split,
        backward=_backward_split,
        **_SHARED,
    ),
    Definition(
        name="rotary_qkv_backward",
        schema=f"(Tensor dq, Tensor dk, Tensor dv, {_ANGLES}, bool interleaved) -> Tensor",
        doc="The gradient of a packed tensor.",
        fake=_fake_join,
        candidates=plans.join,
        setup=_setup_join,
        backward=_backward_join,
        public=False,
        **_SHARED,
    ),
    *cached.DEFINITIONS,
)
