"""Layer norm and RMS norm over rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.climbing.extract.computation import (
    Computation,
    ElementType,
    element,
    needed,
    precision,
    refused,
    rows_of,
    smaller,
    tensor,
)

OPERATIONS = (
    "aten::native_layer_norm", "weft::layer_norm", "aten::_fused_rms_norm", "weft::rms_norm",
)  # fmt: skip

RMS_EPS = {"f32": 1.1920929e-07, "bf16": 7.8125e-03, "f16": 9.765625e-04}
"""The eps of an RMS norm that has none: the smallest step of the type, as in PyTorch."""

RUNG = """// idea:   one thread per row. Adjacent threads read addresses that are a whole row apart
{precision}// launch: {norm}<<<cdiv(rows, 64), 64>>>

{header}__global__ void {norm}(const {T}* x, {arrays}{T}* y, int rows, int n) {{
    int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= rows) return;
    x += size_t(row) * n, y += size_t(row) * n;
    float mean = 0, squares = 0;
{centre}    for (int i = 0; i < n; ++i) squares += (float(x[i]) - mean) * (float(x[i]) - mean);
    float scale = rsqrtf(squares / n + {eps}f);
    for (int i = 0; i < n; ++i) y[i] = {T}((float(x[i]) - mean) * scale{affine});
}}
"""
CENTRE = """    for (int i = 0; i < n; ++i) mean += float(x[i]);
    mean /= n;
"""


def describe(operation: str, operands: Mapping[str, Any]) -> Computation:
    """Rows without their mean and of variance 1, or of mean square 1, times w, plus b."""
    x, weight, bias = needed(operands, "input"), tensor(operands, "weight"), None
    shape = operands.get("normalized_shape") or (x.shape[-1],)
    if len(shape) != 1:
        raise refused("it normalises several dimensions", str(tuple(shape)), "the last one")
    norm = "rms_norm" if "rms" in operation else "layer_norm"
    if norm == "layer_norm":
        bias = tensor(operands, "bias")
    kind = element(x)
    if any(t is not None and t.dtype != x.dtype for t in (weight, bias)):
        raise refused("its weights have another type than x", str(weight), x.dtype)
    rows, n = rows_of(x)
    default = 1e-5 if norm == "layer_norm" else RMS_EPS[kind.name]
    given_eps = operands.get("eps")
    eps = default if given_eps is None else float(given_eps)
    sizes = {"rows": rows, "n": n}
    given = [("w", weight), ("b", bias)]
    names = [name for name, value in given if value is not None]
    return Computation(
        norm,
        f"{'RMS' if norm == 'rms_norm' else 'Layer'} norm over rows of {n} elements of "
        f"{kind.name}, computed in float.",
        " ".join([f"x:{kind.name}[rows,n]", *(f"{name}:{kind.name}[n]" for name in names)])
        + f" -> y:{kind.name}[rows,n]",
        _call(norm, names, eps),
        sizes,
        [
            (smaller(sizes, {"rows": 96, "n": 512}), ""),
            ({"rows": 5, "n": 77}, "ragged: no whole warps"),
            ({"rows": 3, "n": 256}, "few rows"),
        ],
        "8*rows*n" if norm == "layer_norm" else "4*rows*n",
        f"{2 * kind.size}*rows*n",
        "copy",
        _rung(norm, kind, names, eps),
        norm,
    )


def _call(norm: str, names: list[str], eps: float) -> str:
    weight, bias = (name if name in names else "None" for name in ("w", "b"))
    both = f"{weight}, {bias}" if norm == "layer_norm" else weight
    return f"torch.nn.functional.{norm}(x, (x.shape[-1],), {both}, {eps!r})"


def _rung(norm: str, kind: ElementType, names: list[str], eps: float) -> str:
    times = " * float(w[i])" if "w" in names else ""
    plus = " + float(b[i])" if "b" in names else ""
    return RUNG.format(
        norm=norm, precision=precision(kind), header=kind.header, T=kind.cuda,
        arrays="".join(f"const {kind.cuda}* {name}, " for name in names),
        centre=CENTRE if norm == "layer_norm" else "", eps=f"{eps:e}", affine=times + plus,
    )  # fmt: skip
