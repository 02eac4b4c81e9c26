"""matmul_wide: products of 16-bit matrices whose results keep 32 bits, and sums of rows.

Gradients of weights of float32 under autocast: PyTorch rounds them to 16 bits and converts them.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core import library
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.plan import Buffer, Plan
from weft.ops.families.elementwise.conversions import converted_after
from weft.ops.families.matmul import pipelined
from weft.ops.families.matmul.matmul import MATMUL, check_operands
from weft.ops.families.matmul.product import product_of
from weft.ops.families.matmul.row_sums import INPUTS, MOST, SUMS

NAME = "matmul_wide"
WIDE = torch.float32


def _candidates(request: Request) -> list[Candidate]:
    """A product on Hopper that stores float32, or any product and conversions after it."""
    sums, gpu = request.options["sums"], request.target
    rows, columns = request.inputs[0], request.inputs[1]
    assert rows is not None and columns is not None
    shape = (rows.shape[0], columns.shape[1])
    outputs = (Buffer(shape, WIDE), Buffer(shape[:1] if sums else (0,), WIDE))
    name = "matmul_row_sums" if sums else "matmul"
    narrow = Request(name, request.inputs, {"precision": "fp32"}, gpu)
    base = library.function(name).definition.candidates(narrow)
    cheapest = sorted(base, key=lambda c: c.cost)[:MOST]
    found = [converted_after(c, INPUTS, rows.dtype, outputs, gpu) for c in cheapest]
    made = replace(product_of(request, MATMUL), stored=WIDE)
    # Operands that are copied first have other numbers.
    if made.scratch or 0 in (made.m, made.n):
        return found
    direct = pipelined.candidates(made, gpu, SUMS if sums else None)
    return found + [
        replace(c, name=f"{c.name}, 32 bits", build=functools.partial(_stored, c, outputs))
        for c in direct
    ]


def _stored(product: Candidate, outputs: tuple[Buffer, ...]) -> Plan:
    return replace(product.build(), outputs=outputs)


def _check(a: Any, b: Any, sums: bool) -> None:
    check_operands(NAME, a, b, "fp32")
    if a.dim() != 2 or b.dim() != 2 or a.dtype is WIDE:
        raise ArgumentError(
            f"weft.ops.{NAME}: an operand is no matrix of 16-bit elements",
            got=f"a {list(a.shape)} of {a.dtype}, b {list(b.shape)}",
            allowed="a[M, K] and b[K, N] of float16 or bfloat16",
        )


DEFINITIONS = (
    Definition(
        name=NAME,
        schema="(Tensor a, Tensor b, bool sums) -> (Tensor, Tensor)",
        doc="""The product of two matrices of 16-bit elements in float32.

        The second result has the sums of the rows of a, if they are wanted.
        """,
        fake=lambda a, b, sums: (
            a.new_empty((a.shape[0], b.shape[1]), dtype=WIDE),
            a.new_empty(a.shape[:1] if sums else (0,), dtype=WIDE),
        ),
        candidates=_candidates,
        check=_check,
        autocast=None,
        public=False,
    ),
)
