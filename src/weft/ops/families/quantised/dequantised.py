"""Plan the conversion of a weight to a matrix, alone or before a product with many tokens."""

from __future__ import annotations

import functools
from dataclasses import replace

import torch

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.plan import Buffer, Plan, Pointer, Step
from weft.ops.families.matmul.matmul import candidates_of
from weft.ops.families.matmul.product import Bias, Operand, Product
from weft.ops.families.quantised import model
from weft.ops.families.quantised.job import BIAS, OUTPUT, QuantisedJob, QuantisedWeight
from weft.ops.families.quantised.structs import QuantisedProblem

THREADS = 256
MOST = 4
"""Candidates that are offered: those of the product with the least modelled time."""


def candidates(job: QuantisedJob, request: Request) -> list[Candidate]:
    """Candidates that convert the weight and then multiply as matmul does."""
    weight, k = job.weight, job.weight.k
    to = Pointer(OUTPUT + 1 + len(job.scratch))
    bias = None if job.bias is None else Bias(Pointer(BIAS), 0, 0, job.bias)
    product = Product(
        1, job.m, weight.n, k,
        Operand(job.x, job.pitch, 1, 0, job.aligned), Operand(to, k, 1, 0, 16),
        bias, weight.n, 1, 0, job.out,
        before=job.steps, scratch=(*job.scratch, Buffer((weight.n, k), job.dtype)),
        inputs=len(request.inputs),
    )  # fmt: skip
    before = job.copy_time + model.dequantise_time(weight, job.dtype, request.target)
    found = sorted(candidates_of(product, request), key=lambda c: c.cost)[:MOST]
    return [
        Candidate(
            f"dequantised, {c.name}",
            before + c.cost,
            f"{weight.size:,} bytes converted first; {c.why}",
            functools.partial(_plan, weight, job.dtype, to, len(job.steps), c),
        )
        for c in found
    ]


def _plan(
    weight: QuantisedWeight, dtype: torch.dtype, to: Pointer, copies: int, product: Candidate
) -> Plan:
    """The plan of a product with the conversion after the copies of x."""
    plan = product.build()
    first, rest = plan.steps[:copies], plan.steps[copies:]
    return replace(plan, steps=(*first, step(weight, dtype, to), *rest))


def step(weight: QuantisedWeight, dtype: torch.dtype, to: Pointer) -> Step:
    """The launch that converts a weight to a contiguous matrix at `to`."""
    each = weight.each
    types = (source.ctype(dtype), source.ctype(weight.scale), each)
    name = source.template("dequantised", f"Weights::{weight.format.name}", *types)
    kernel = source.kernel("quantised/dequantise.cu", name, **QuantisedProblem.define())
    blocks = cdiv(weight.n * weight.k, THREADS * each)
    return Step(kernel, (blocks,), (THREADS,), (*weight.pointers, to, weight.problem()))


def op_candidates(request: Request) -> list[Candidate]:
    """The candidate of the op that converts a weight."""
    weight, dtype = QuantisedWeight.of(request, 0), request.options["dtype"]
    out = Buffer((weight.n, weight.k), dtype)
    if not weight.n * weight.k:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]
    seconds = model.dequantise_time(weight, dtype, request.target)
    why = f"{weight.size:,} bytes"
    to = Pointer(len(request.inputs))
    return [Candidate("each", seconds, why, lambda: Plan((step(weight, dtype, to),), (out,)))]
