"""The gradients of attention side by side in one tensor, as a product for all three reads them.

Queries, keys and values that one linear layer makes are parts of its result. Its gradient has their
gradients as parts: kernels write them there, and no copy joins them.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from weft.ops.core.choose import Candidate, Request
from weft.ops.core.plan import Buffer, Plan
from weft.ops.families.attention.backward.job import KEY, QUERY, VALUE, described
from weft.ops.families.attention.backward.plans import of_job
from weft.ops.families.attention.problem import gradient_shapes


def candidates(request: Request) -> list[Candidate]:
    """Candidates of a call for four dimensions, and as many queries as keys."""
    shapes = _shapes(request)
    batch, _, rows, _ = shapes[0]
    widths = [heads * each for _, heads, _, each in shapes]
    begins = [0, *itertools.accumulate(widths)]
    total = begins.pop()
    dtype = request.first.dtype
    results = tuple(
        Buffer(shape, dtype, strides=(rows * total, shape[-1], total, 1)) for shape in shapes
    )
    places = tuple(begin * dtype.itemsize for begin in begins)
    job = described(request, 1, False)._replace(results=results, places=places)
    whole = Buffer((batch, rows, total), dtype)
    return [replace(c, build=functools.partial(_whole, c.build, whole)) for c in of_job(job)]


def _shapes(request: Request) -> tuple[tuple[int, ...], ...]:
    given = (request.inputs[n] for n in (QUERY, KEY, VALUE))
    q, k, v = (x.shape for x in given if x is not None)
    return gradient_shapes(q, k, v, request.options["enable_gqa"])


def _whole(build: Callable[[], Plan], whole: Buffer) -> Plan:
    """The plan with one output instead of its parts."""
    plan = build()
    return replace(plan, outputs=(whole._replace(zeroed=plan.outputs[0].zeroed),))


def empty(
    dout: Any, dlse: Any, query: Any, key: Any, value: Any, out: Any, lse: Any, attn_mask: Any,
    state: Any, cu_seq_q: Any, cu_seq_k: Any, max_q: int, max_k: int, is_causal: bool,
    scale: float | None, enable_gqa: bool, *random: Any,
) -> Any:  # fmt: skip
    """The result of a fake call."""
    shapes = gradient_shapes(query.shape, key.shape, value.shape, enable_gqa)
    batch, _, rows, _ = shapes[0]
    return query.new_empty((batch, rows, sum(heads * each for _, heads, _, each in shapes)))
