"""Scaled dot-product attention: softmax(query key' * scale + mask) value."""

from __future__ import annotations

import functools
from typing import Any

import torch

from weft.kernels import cdiv
from weft.ops.core import eager, library
from weft.ops.core.bind.autocast import LOWER
from weft.ops.core.bind.derive import derive
from weft.ops.core.function import Definition
from weft.ops.core.invariant import invariant
from weft.ops.families.attention import paged
from weft.ops.families.attention.backward import joined
from weft.ops.families.attention.backward import mask as mask_backward
from weft.ops.families.attention.backward import plans as backward
from weft.ops.families.attention.check import check, check_ragged
from weft.ops.families.attention.flex import op as flex
from weft.ops.families.attention.forward import ORDER, candidates
from weft.ops.families.attention.merge import op as merge
from weft.ops.families.attention.problem import gradient_shapes, result_shape, result_strides
from weft.ops.families.random.start import start

_OPTIONS = (
    "(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0,"
    " bool is_causal=False, float? scale=None, bool enable_gqa=False, int[]? window=None) -> "
)
_DROPPED = (
    "(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, Tensor? state, float dropout_p,"
    " bool is_causal, float? scale, bool enable_gqa, int seed, int offset,"
    " int[]? window=None) -> (Tensor, Tensor)"
)
_RAGGED = (
    "(Tensor query, Tensor key, Tensor value, Tensor cu_seq_q, Tensor cu_seq_k, int max_q,"
    " int max_k, bool is_causal=False, float? scale=None, bool enable_gqa=False,"
    " int[]? window=None) -> "
)


def _empty(query: Any, key: Any, value: Any, *rest: Any, **options: Any) -> Any:
    shape = result_shape(query.shape, key.shape, value.shape)
    return query.new_empty_strided(shape, result_strides(shape, query.shape, query.stride()))


def _empty_lse(query: Any, key: Any, value: Any, *rest: Any, **options: Any) -> Any:
    out = _empty(query, key, value)
    return out, query.new_empty(out.shape[:-1], dtype=torch.float32)


def _empty_paged(query: Any, key: Any, value: Any, *rest: Any, **options: Any) -> Any:
    shape = (*query.shape[:3], value.shape[3])
    return query.new_empty_strided(shape, result_strides(shape, query.shape, query.stride()))


def _empty_ragged(query: Any, key: Any, value: Any, *rest: Any, **options: Any) -> Any:
    return query.new_empty((*query.shape[:2], value.shape[2]))


def _empty_ragged_lse(query: Any, key: Any, value: Any, *rest: Any, **options: Any) -> Any:
    lse = query.new_empty((query.shape[1], query.shape[0]), dtype=torch.float32)
    return _empty_ragged(query, key, value), lse


def _empty_gradients(
    dout: Any, dlse: Any, query: Any, key: Any, value: Any, out: Any, lse: Any, attn_mask: Any,
    state: Any, cu_seq_q: Any, cu_seq_k: Any, max_q: int, max_k: int, is_causal: bool,
    scale: float | None, enable_gqa: bool, *random: Any,
) -> Any:  # fmt: skip
    if cu_seq_q is not None:
        return tuple(x.new_empty(x.shape) for x in (query, key, value))
    shapes = gradient_shapes(query.shape, key.shape, value.shape, enable_gqa)
    return tuple(
        x.new_empty_strided(shape, result_strides(shape, x.shape, x.stride()))
        for x, shape in zip((query, key, value), shapes, strict=True)
    )


# ---- gradients ---------------------------------------------------------------------------------
def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    query, key, value, added, _, *ctx.options, ctx.window = inputs
    ctx.random = 0.0, 0, 0
    ctx.set_materialize_grads(False)  # zeros for logarithms that are not used are a launch
    ctx.save_for_backward(query, key, value, added, None, *output)


def _setup_dropped(ctx: Any, inputs: Any, output: Any) -> None:
    *tensors, p, causal, scale, shared, seed, offset, ctx.window = inputs
    ctx.options, ctx.random = (causal, scale, shared), (p, seed, offset)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*tensors, *output)


def _gradients(ctx: Any, dout: Any, dlse: Any = None) -> Any:
    query, key, value, added, state, out, lse = ctx.saved_tensors
    dout = torch.zeros_like(out) if dout is None else dout
    given = (dout, _dense(dlse), query, key, value, out, lse, added, state)
    options = (*ctx.options, *ctx.random, ctx.window)
    made = library.call("attention_backward")(*given, None, None, 0, 0, *options)
    of = [d.sum_to_size(x.shape) for d, x in zip(made, (query, key, value), strict=True)]
    of_mask = None
    if any(ctx.needs_input_grad[3:4]):  # torch leaves out arguments that have their defaults
        scores = library.call("attention_mask_backward")(*given, *options)
        of_mask = scores.sum_to_size(added.shape)
    every = *of, of_mask, *(None,) * (len(ctx.needs_input_grad) - 4)
    return every[: len(ctx.needs_input_grad)]


def _setup_ragged(ctx: Any, inputs: Any, output: Any) -> None:
    *tensors, ctx.max_q, ctx.max_k, ctx.causal, ctx.scale, ctx.shared, ctx.window = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*tensors, *output)


def _ragged_gradients(ctx: Any, dout: Any, dlse: Any = None) -> Any:
    query, key, value, starts_q, starts_k, out, lse = ctx.saved_tensors
    dout = torch.zeros_like(out) if dout is None else dout
    made = library.call("attention_backward")(
        dout, _dense(dlse), query, key, value, out, lse, None, None, starts_q, starts_k, ctx.max_q,
        ctx.max_k, ctx.causal, ctx.scale, ctx.shared, 0.0, 0, 0, ctx.window,
    )  # fmt: skip
    return *made, *(None,) * 8


def _dense(dlse: Any) -> Any:
    """The gradient of the logarithms as the kernels read it; None where there is none."""
    return None if dlse is None else dlse.contiguous()


def _redirect(name: str) -> Any:
    """Redirect calls with gradients to the op that also returns what they need.

    Calls with dropout use an op that takes a seed and an offset.
    """

    def redirect(op: Any) -> Any:
        with_lse = library.call(f"{name}_lse")

        def redirected(query: Any, key: Any, value: Any, other: Any, *rest: Any) -> Any:
            """`other` is the mask, or lengths."""
            if name == "attention" and rest[0] > 0:
                return with_lse(query, key, value, other, *rest)[0]
            if not torch.is_grad_enabled():
                return NotImplemented
            masked = other is not None and other.requires_grad
            if not (query.requires_grad or key.requires_grad or value.requires_grad or masked):
                return NotImplemented
            return with_lse(query, key, value, other, *rest)[0]

        def given(*args: Any) -> Any:
            return None if name == "attention" and args[4] > 0 else args

        return eager.Redirect(redirected, library.function(f"{name}_lse"), 1, given)

    return redirect


def _redirect_dropped(op: Any) -> Any:
    """Draw a seed and an offset for calls of attention_lse with dropout."""
    dropped = library.call("attention_dropout")

    def redirected(
        query: Any, key: Any, value: Any, mask: Any, p: float, causal: bool, scale: Any, gqa: bool,
        window: Any = None,
    ) -> Any:  # fmt: skip
        if p == 0:
            return NotImplemented
        check("attention", query, key, value, mask, p, causal, scale, gqa, window)
        calls = cdiv(key.shape[-2], 16)
        seed, offset, state = start("attention", 0, query.device, calls=calls)
        options = (p, causal, scale, gqa, seed, offset, window)
        return dropped(query, key, value, mask, state, *options)

    return redirected


def _setup_alone(name: str, ctx: Any, inputs: Any, output: Any) -> None:
    """For calls that are not redirected: backward computes the logarithms again."""
    ctx.name, ctx.inputs = name, inputs[4:]
    ctx.save_for_backward(*inputs[:4])


def _gradients_alone(ctx: Any, dout: Any) -> Any:
    wanted = (*ctx.needs_input_grad, False)[:4]  # without a mask, torch leaves it out
    saved = list(zip(ctx.saved_tensors, wanted, strict=True))

    def function(*points: Any) -> Any:
        rest = iter(points)
        tensors = [next(rest) if w else x for x, w in saved]
        return library.call(f"{ctx.name}_lse")(*tensors, *ctx.inputs)[0]

    made = iter(derive(function, [x for x, w in saved if w], [dout]))
    every = *(next(made) if w else None for w in wanted), *(None,) * len(ctx.inputs)
    return every[: len(ctx.needs_input_grad)]


def _forward(name: str, schema: str, doc: str, fake: Any, check: Any, ragged: bool) -> Definition:
    """The op that returns the result alone; calls with gradients go to the one with logarithms."""
    return Definition(
        name=name,
        schema=schema + "Tensor",
        doc=doc,
        fake=fake,
        candidates=functools.partial(candidates, ragged=ragged, lse=False),
        check=functools.partial(check, name),
        setup=functools.partial(_setup_alone, name),
        backward=_gradients_alone,
        autocast=LOWER,
        redirect=_redirect(name),
    )


GROUP = "attention, embedding"
_BACKWARD = (
    "(Tensor dout, Tensor? dlse, Tensor query, Tensor key, Tensor value, Tensor out,"
    " Tensor lse, Tensor? attn_mask, Tensor? state, Tensor? cu_seq_q, Tensor? cu_seq_k,"
    " int max_q, int max_k, bool is_causal, float? scale, bool enable_gqa,"
    " float dropout_p, int seed, int offset, int[]? window=None)"
)
"""The arguments of ops for the gradients of query, key and value."""

_OPS = (
    _forward(
        "attention",
        _OPTIONS,
        """softmax(query key' * scale) value, as torch's scaled_dot_product_attention.

        float16 and bfloat16 are multiplied on tensor cores and summed in float32; float32 is
        computed without tensor cores. window=(left, right): query i sees the keys from i - left up
        to i + right; -1 is no limit.
        """,
        fake=_empty,
        check=check,
        ragged=False,
    ),
    Definition(
        name="attention_lse",
        schema=_OPTIONS + "(Tensor, Tensor)",
        doc="attention, and the logarithm of the sum of each row's exponentials in float32.",
        fake=_empty_lse,
        candidates=functools.partial(candidates, ragged=False, lse=True),
        check=functools.partial(check, "attention_lse"),
        setup=_setup,
        backward=_gradients,
        autocast=LOWER,
        redirect=_redirect_dropped,
    ),
    Definition(
        name="attention_dropout",
        schema=_DROPPED,
        doc="attention_lse with dropout of the weights, by the random numbers of dropout.cuh.",
        fake=_empty_lse,
        candidates=functools.partial(candidates, ragged=False, lse=True, state=4),
        setup=_setup_dropped,
        backward=_gradients,
        autocast=None,
        public=False,
        varying=("seed", "offset"),
    ),
    _forward(
        "attention_varlen",
        _RAGGED,
        """attention of sequences of different lengths, stored one after another.

        Tensors are [rows, heads, elements]. Sequence i has the rows from cu_seq_q[i] up to
        cu_seq_q[i + 1], and keys likewise. A causal mask ends at the last query and the last key.
        """,
        fake=_empty_ragged,
        check=check_ragged,
        ragged=True,
    ),
    Definition(
        name="attention_varlen_lse",
        schema=_RAGGED + "(Tensor, Tensor)",
        doc="attention_varlen, and the logarithms of the sums, [heads, rows].",
        fake=_empty_ragged_lse,
        candidates=functools.partial(candidates, ragged=True, lse=True),
        check=functools.partial(check_ragged, "attention_varlen_lse"),
        setup=_setup_ragged,
        backward=_ragged_gradients,
        autocast=LOWER,
    ),
    Definition(
        name="attention_paged",
        schema=(
            "(Tensor query, Tensor key, Tensor value, Tensor block_table, Tensor lengths,"
            " bool is_causal=False, float? scale=None, int[]? window=None,"
            " Tensor? key_scale=None, Tensor? value_scale=None) -> Tensor"
        ),
        doc="""attention whose keys and values are in pages, for decoding.

        query is [batch, heads, rows, elements], key and value are [pages, keys of a page, heads,
        elements]. Sequence b has lengths[b] keys, those from n * (keys of a page) on in page
        block_table[b, n]. A causal mask and a window end at the last query and the last key.

        key and value have the query's dtype, or are int8; then key_scale and value_scale, float32
        [pages, keys of a page, heads], multiply the elements of each key and head, as quantise
        returns them without its last dimension. Scales are applied to scores and weights in single
        precision, so that no dequantised element is rounded.
        """,
        fake=_empty_paged,
        candidates=paged.candidates,
        check=paged.check_paged,
        autocast=None,
    ),
    Definition(
        name="attention_backward",
        schema=f"{_BACKWARD} -> (Tensor, Tensor, Tensor)",
        doc="The gradients of attention's query, key and value.",
        fake=_empty_gradients,
        candidates=backward.candidates,
        autocast=None,
        public=False,
        varying=("seed", "offset"),
    ),
    Definition(
        name="attention_backward_joined",
        schema=f"{_BACKWARD} -> Tensor",
        doc="""The same side by side, [batch, sequence, heads of all three times elements].

        Tensors have four dimensions, and there are as many queries as keys; without lengths.
        """,
        fake=joined.empty,
        candidates=joined.candidates,
        autocast=None,
        public=False,
        varying=("seed", "offset"),
    ),
    Definition(
        name="attention_mask_backward",
        schema=(
            "(Tensor dout, Tensor? dlse, Tensor query, Tensor key, Tensor value, Tensor out,"
            " Tensor lse, Tensor attn_mask, Tensor? state, bool is_causal, float? scale,"
            " bool enable_gqa, float dropout_p, int seed, int offset, int[]? window=None) -> Tensor"
        ),
        doc="The gradient of attention's scores, which a mask of their shape would have.",
        fake=lambda dout, dlse, query, key, value, out, lse, attn_mask, *options: (
            attn_mask.new_empty((*lse.shape, key.shape[-2]))
        ),
        candidates=mask_backward.candidates,
        autocast=None,
        public=False,
        varying=("seed", "offset"),
    ),
    *merge.DEFINITIONS,
    *flex.DEFINITIONS,
)
_DECODING = ("attention", "attention_paged")
DEFINITIONS = (*_OPS, *(invariant(d, (ORDER,)) for d in _OPS if d.name in _DECODING))
MAKERS = flex.MAKERS
