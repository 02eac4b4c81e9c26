"""Define flex_attention: attention whose scores and mask are C++ expressions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core import library, source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.plan import Pointer
from weft.ops.families.attention import forward
from weft.ops.families.attention.backward import plans as backward
from weft.ops.families.attention.backward.job import described
from weft.ops.families.attention.check import check
from weft.ops.families.attention.flex import text
from weft.ops.families.attention.flex.expression import MOST, expression_of
from weft.ops.families.attention.forward_job import AttentionJob
from weft.ops.families.attention.problem import (
    EXPRESSION,
    AttentionOperands,
    gradient_shapes,
    problem_of,
    result_shape,
    result_strides,
)

NAME = "flex_attention"
_TENSORS = "".join(f", Tensor? t{n}" for n in range(MOST))
_TEXTS = "str names, str score, str mask"
_OPTIONS = "bool is_causal, float? scale, bool enable_gqa, int[]? window"
GIVEN = 11
"""Tensors of a backward call before those of expressions, as attention_backward has them."""


# ---- kernels -----------------------------------------------------------------------------------
def _forward(request: Request) -> list[Candidate]:
    operands = AttentionOperands(request, 2, ragged=False)
    p = dataclasses.replace(problem_of(operands, (0, 1, 2), None, None), mask=EXPRESSION)
    q, k, v = (operands.rows(n, p) for n in range(3))
    end = len(request.inputs)
    job = AttentionJob(p, q, k, v, operands, Pointer(end), Pointer(end + 1))
    if 0 in (p.batch, p.heads, p.rows, p.width):
        return [Candidate("empty", 0.0, "no elements", lambda: job.plan(()))]
    return forward.ranked(job._replace(expression=expression_of(request, 3)), request.target)


def _backward(request: Request) -> list[Candidate]:
    job = described(request, 3, ragged=False)
    return backward.of_job(
        job._replace(
            problem=dataclasses.replace(job.problem, mask=EXPRESSION, random=(None, 0, 0)),
            results=backward.results(request, ragged=False),
            expression=expression_of(request, GIVEN),
        )
    )


# ---- gradients ---------------------------------------------------------------------------------
def _empty(query: Any, key: Any, value: Any, *rest: Any) -> Any:
    shape = result_shape(query.shape, key.shape, value.shape)
    out = query.new_empty_strided(shape, result_strides(shape, query.shape, query.stride()))
    return out, query.new_empty(shape[:-1], dtype=torch.float32)


def _empty_gradients(dout: Any, dlse: Any, query: Any, key: Any, value: Any, *rest: Any) -> Any:
    enable_gqa = rest[-2]
    shapes = gradient_shapes(query.shape, key.shape, value.shape, enable_gqa)
    return tuple(
        x.new_empty_strided(shape, result_strides(shape, x.shape, x.stride()))
        for x, shape in zip((query, key, value), shapes, strict=True)
    )


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.options = inputs[3 + MOST :]
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs[: 3 + MOST], *output)


def _gradients(ctx: Any, dout: Any, dlse: Any = None) -> Any:
    query, key, value, *named, out, lse = ctx.saved_tensors
    _refuse_gradient(ctx.options[1])
    dout = torch.zeros_like(out) if dout is None else dout
    dlse = None if dlse is None else dlse.contiguous()
    made = library.call("flex_attention_backward")(
        dout, dlse, query, key, value, out, lse, None, None, None, None, *named, *ctx.options
    )
    of = [d.sum_to_size(x.shape) for d, x in zip(made, (query, key, value), strict=True)]
    return *of, *(None,) * (len(ctx.needs_input_grad) - 3)


def _refuse_gradient(score: str) -> None:
    if not text.only_added_to(score):
        raise ArgumentError(
            f"weft.ops.{NAME}: there is no gradient through this score",
            got=f"score={score!r}",
            allowed="the score plus terms without it, e.g. score + bias[q][k]",
            next="with torch.no_grad():, or query.detach(), key.detach(), value.detach()",
        )


# ---- the function ------------------------------------------------------------------------------
def _check(query: Any, key: Any, value: Any, named: Any, options: tuple[Any, ...]) -> None:
    for which, x in (("query", query), ("key", key), ("value", value)):
        if x.dim() != 4:
            raise ArgumentError(
                f"weft.ops.{NAME}: {which} must have four dimensions",
                got=str(list(x.shape)),
                allowed="[batch, heads, rows, elements]",
            )
    check(NAME, query, key, value, None, 0.0, *options)
    if not isinstance(named, Mapping) or len(named) > MOST:
        raise ArgumentError(
            f"weft.ops.{NAME}: named must be a dictionary of at most {MOST} tensors by name",
            got=str(len(named)) if isinstance(named, Mapping) else type(named).__name__,
        )
    text.check_names(tuple(named))
    for name, x in named.items():
        if x.dim() > MOST or x.dtype not in source.CTYPES or x.device != query.device:
            raise ArgumentError(
                f"weft.ops.{NAME}: tensor '{name}' cannot be read by an expression",
                got=f"{x.dtype} {list(x.shape)} on {x.device}",
                allowed=f"at most {MOST} dimensions, real numbers, on {query.device}",
            )


def _flex() -> Callable[..., Any]:
    op = library.call("flex_attention_lse")

    def flex_attention(
        query: Any, key: Any, value: Any, score: str = "", mask: str = "", named: Any = None,
        is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
        window: Any = None,
    ) -> Any:  # fmt: skip
        """attention whose scores and mask are C++ expressions, compiled into its kernel.

        score  the changed score, e.g. "score + slope[h] * (k - q)", where score is that of a query
               and a key, scaled
        mask   true for a key that a query sees, e.g. "document[b][q] == document[b][k]"

        b, h, q and k are the numbers of the batch, the head of queries, the query and the key.
        named={"slope": slope} gives up to 4 tensors names. Keys that is_causal and window hide are
        skipped: give them where the mask implies them. Gradients of query, key and value need a
        score that is only added to.
        """
        given = {} if named is None else named
        options = (is_causal, scale, enable_gqa, window)
        _check(query, key, value, given, options)
        names, tensors = tuple(given), list(given.values())
        text.translate("score", score, names, "score")
        text.translate("mask", mask, names, "true")
        if torch.is_grad_enabled():
            if any(x.requires_grad for x in (query, key, value)):
                _refuse_gradient(score)
            for name, x in given.items():
                if x.requires_grad:
                    raise ArgumentError(
                        f"weft.ops.{NAME}: there is no gradient of tensor '{name}'",
                        next=f"named={{'{name}': {name}.detach()}}",
                    )
        tensors += [None] * (MOST - len(tensors))
        return op(query, key, value, *tensors, ",".join(names), score, mask, *options)[0]

    return flex_attention


DEFINITIONS = (
    Definition(
        name="flex_attention_lse",
        schema=f"(Tensor query, Tensor key, Tensor value{_TENSORS}, {_TEXTS}, {_OPTIONS})"
        " -> (Tensor, Tensor)",
        doc="flex_attention, and the logarithm of the sum of each row's exponentials in float32.",
        fake=_empty,
        candidates=_forward,
        setup=_setup,
        backward=_gradients,
        autocast=None,
        public=False,
    ),
    Definition(
        name="flex_attention_backward",
        schema="(Tensor dout, Tensor? dlse, Tensor query, Tensor key, Tensor value, Tensor out,"
        " Tensor lse, Tensor? attn_mask, Tensor? state, Tensor? cu_seq_q, Tensor? cu_seq_k"
        f"{_TENSORS}, {_TEXTS}, {_OPTIONS}) -> (Tensor, Tensor, Tensor)",
        doc="The gradients of flex_attention's query, key and value.",
        fake=_empty_gradients,
        candidates=_backward,
        autocast=None,
        public=False,
    ),
)
MAKERS = {NAME: _flex}
