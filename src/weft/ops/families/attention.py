"""Scaled dot-product attention: softmax(query key' * scale + mask) value."""

from __future__ import annotations

import functools
from typing import Any

import torch

from weft.ops.flash.check import check, check_ragged
from weft.ops.flash.forward import candidates
from weft.ops.flash.problem import result_shape, result_strides
from weft.ops.function import Definition

_OPTIONS = (
    "(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0,"
    " bool is_causal=False, float? scale=None, bool enable_gqa=False) -> "
)
_RAGGED = (
    "(Tensor query, Tensor key, Tensor value, Tensor cu_seq_q, Tensor cu_seq_k, int max_q,"
    " int max_k, bool is_causal=False, float? scale=None, bool enable_gqa=False) -> "
)


def _empty(query: Any, key: Any, value: Any, *rest: Any, **options: Any) -> Any:
    shape = result_shape(query.shape, key.shape, value.shape)
    return query.new_empty_strided(shape, result_strides(shape, query.shape, query.stride()))


def _empty_lse(query: Any, key: Any, value: Any, *rest: Any, **options: Any) -> Any:
    out = _empty(query, key, value)
    return out, query.new_empty(out.shape[:-1], dtype=torch.float32)


def _empty_ragged(query: Any, key: Any, value: Any, *rest: Any, **options: Any) -> Any:
    return query.new_empty((*query.shape[:2], value.shape[2]))


def _empty_ragged_lse(query: Any, key: Any, value: Any, *rest: Any, **options: Any) -> Any:
    lse = query.new_empty((query.shape[1], query.shape[0]), dtype=torch.float32)
    return _empty_ragged(query, key, value), lse


DEFINITIONS = (
    Definition(
        name="attention",
        schema=_OPTIONS + "Tensor",
        doc="""softmax(query key' * scale) value, as torch's scaled_dot_product_attention.

        float16 and bfloat16 are multiplied on tensor cores and summed in float32; float32 is
        computed without tensor cores.
        """,
        fake=_empty,
        candidates=functools.partial(candidates, ragged=False, lse=False),
        check=functools.partial(check, "attention"),
        autocast=None,
    ),
    Definition(
        name="attention_lse",
        schema=_OPTIONS + "(Tensor, Tensor)",
        doc="attention, and the logarithm of the sum of each row's exponentials in float32.",
        fake=_empty_lse,
        candidates=functools.partial(candidates, ragged=False, lse=True),
        check=functools.partial(check, "attention_lse"),
        autocast=None,
    ),
    Definition(
        name="attention_varlen",
        schema=_RAGGED + "Tensor",
        doc="""attention of sequences of different lengths, stored one after another.

        Tensors are [rows, heads, elements]. Sequence i has the rows from cu_seq_q[i] up to
        cu_seq_q[i + 1], and keys likewise. A causal mask ends at the last query and the last key.
        """,
        fake=_empty_ragged,
        candidates=functools.partial(candidates, ragged=True, lse=False),
        check=functools.partial(check_ragged, "attention_varlen"),
        autocast=None,
    ),
    Definition(
        name="attention_varlen_lse",
        schema=_RAGGED + "(Tensor, Tensor)",
        doc="attention_varlen, and the logarithms of the sums, [heads, rows].",
        fake=_empty_ragged_lse,
        candidates=functools.partial(candidates, ragged=True, lse=True),
        check=functools.partial(check_ragged, "attention_varlen_lse"),
        autocast=None,
    ),
)
