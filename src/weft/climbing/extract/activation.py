"""Activations: functions of single elements."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from weft.climbing.extract.computation import (
    Computation,
    element,
    needed,
    precision,
    refused,
    smaller,
)

FUNCTIONS = {
    "relu": ("v < 0 ? 0 : v", "torch.relu(x)"),
    "gelu": ("0.5f * v * erfcf(-0.70710678f * v)", "torch.nn.functional.gelu(x)"),
    "silu": ("v / (1 + expf(-v))", "torch.nn.functional.silu(x)"),
    "sigmoid": ("1 / (1 + expf(-v))", "torch.sigmoid(x)"),
    "tanh": ("tanhf(v)", "torch.tanh(x)"),
}
"""Name -> the result of v in CUDA C++, and the expression of PyTorch."""
# 1 + tanh(u) = 2 / (1 + exp(-2u)), which loses nothing where tanh(u) is near -1.
TANH_GELU = (
    "v / (1 + expf(-1.59576912f * (v + 0.044715f * v * v * v)))",
    "torch.nn.functional.gelu(x, approximate='tanh')",
)
OPERATIONS = tuple(
    f"{library}::{name}{end}"
    for name in FUNCTIONS
    for library, end in (("aten", ""), ("aten", "_"), ("weft", ""))
)

RUNG = """// idea:   one thread per element
{precision}// expect: load sectors per request <= 4
// launch: {name}<<<cdiv(n, 256), 256>>>

{header}__global__ void {name}(const {T}* x, {T}* y, int n) {{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    float v = float(x[i]);
    y[i] = {T}({result});
}}
"""


def describe(operation: str, operands: Mapping[str, Any]) -> Computation:
    """A function of each element."""
    x, name = needed(operands, "self", "input", "x"), operation.partition("::")[2].rstrip("_")
    result, call = FUNCTIONS[name]
    if operands.get("approximate") == "tanh":
        result, call = TANH_GELU
    kind, n = element(x), math.prod(x.shape)
    if n >= 2**31:
        raise refused("it has too many elements for a naive kernel", f"{n:,}", "below 2**31")
    sizes = {"n": n}
    return Computation(
        name,
        f"{name} of elements of {kind.name}.",
        f"x:{kind.name}[n] -> y:{kind.name}[n]",
        call,
        sizes,
        [
            (smaller(sizes, {"n": 8192}), ""),
            ({"n": 5003}, "ragged: no whole blocks"),
            ({"n": 1}, "one element"),
        ],
        "n",
        f"{2 * kind.size}*n",
        "copy",
        RUNG.format(
            name=name, precision=precision(kind), header=kind.header, T=kind.cuda, result=result
        ),
        "gelu" if name == "gelu" else "vecadd",
    )
