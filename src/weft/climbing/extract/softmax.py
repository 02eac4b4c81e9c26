"""Softmax over the last dimension."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.climbing.extract.computation import (
    Computation,
    element,
    needed,
    precision,
    refused,
    rows_of,
    smaller,
)

OPERATIONS = ("aten::_softmax", "aten::softmax", "weft::softmax")

RUNG = """// idea:   one thread per row, three passes: the largest, the sum, the result
{precision}// launch: softmax<<<cdiv(rows, 64), 64>>>

{header}__global__ void softmax(const {T}* x, {T}* y, int rows, int n) {{
    int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= rows) return;
    x += size_t(row) * n, y += size_t(row) * n;
    float most = float(x[0]), sum = 0;
    for (int i = 1; i < n; ++i) most = fmaxf(most, float(x[i]));
    for (int i = 0; i < n; ++i) sum += expf(float(x[i]) - most);
    for (int i = 0; i < n; ++i) y[i] = {T}(expf(float(x[i]) - most) / sum);
}}
"""


def describe(operation: str, operands: Mapping[str, Any]) -> Computation:
    """Positive rows with the sum 1."""
    x = needed(operands, "self", "x", "input")
    dim = int(operands.get("dim", -1))
    if dim not in (-1, len(x.shape) - 1):
        raise refused("it is a softmax over another dimension", f"dim={dim}", "the last one")
    kind = element(x)
    rows, n = rows_of(x)
    sizes = {"rows": rows, "n": n}
    return Computation(
        "softmax",
        f"Softmax over rows of {n} elements of {kind.name}.",
        f"x:{kind.name}[rows,n] -> y:{kind.name}[rows,n]",
        "torch.softmax(x, -1)",
        sizes,
        [
            (smaller(sizes, {"rows": 96, "n": 512}), ""),
            ({"rows": 5, "n": 77}, "ragged: no whole warps"),
            ({"rows": 4, "n": 1}, "one element"),
        ],
        "5*rows*n",
        f"{2 * kind.size}*rows*n",
        "copy",
        RUNG.format(precision=precision(kind), header=kind.header, T=kind.cuda),
        "softmax" if kind.name == "f32" else "softmax_bf16",
    )
