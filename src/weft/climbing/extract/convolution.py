"""Convolutions of two dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.climbing.extract.computation import (
    Computation,
    element,
    needed,
    precision,
    refused,
    tensor,
)

OPERATIONS = ("aten::convolution", "weft::conv2d")

RUNG = """// idea:   one thread per result; adjacent threads write adjacent columns
{precision}// launch: conv2d<<<(cdiv(({P})*({Q}), 128), K, N), 128>>>

{header}__global__ void conv2d(const {T}* x, const {T}* w, {bias}{T}* y, int C, int H, int W,
                       int K, int R, int S) {{
    int P = {height};
    int Q = {width};
    int pixel = blockIdx.x * 128 + threadIdx.x, k = blockIdx.y, n = blockIdx.z;
    if (pixel >= P * Q) return;
    int channels = C / {groups}, first = k / (K / {groups}) * channels;
    int top = pixel / Q * {sy} - {py}, left = pixel % Q * {sx} - {px};
    float sum = {start};
    for (int c = 0; c < channels; ++c)
        for (int r = 0; r < R; ++r)
            for (int s = 0; s < S; ++s) {{
                int i = top + r * {dy}, j = left + s * {dx};
                bool inside = unsigned(i) < H && unsigned(j) < W;
                size_t at = ((size_t(n) * C + first + c) * H + i) * W + j;
                float value = inside ? float(x[at]) : 0;
                sum += value * float(w[((size_t(k) * channels + c) * R + r) * S + s]);
            }}
    y[(size_t(n) * K + k) * P * Q + pixel] = {T}(sum);
}}
"""


def describe(operation: str, operands: Mapping[str, Any]) -> Computation:
    """A convolution with the strides, padding, dilation and groups of the layer."""
    x, w, bias = needed(operands, "input"), needed(operands, "weight"), tensor(operands, "bias")
    if len(x.shape) != 4 or operands.get("transposed"):
        raise refused("its convolution is another one", f"{x}", "two dimensions, not transposed")
    kind, groups = element(x), int(operands.get("groups", 1))
    settings = {"stride": 1, "padding": 0, "dilation": 1}
    pairs = {name: _pair(operands.get(name, value)) for name, value in settings.items()}
    (sy, sx), (py, px), (dy, dx) = pairs.values()
    rows = f"(H + {2 * py} - {dy} * (R - 1) - 1) // {sy} + 1"
    columns = f"(W + {2 * px} - {dx} * (S - 1) - 1) // {sx} + 1"
    (batch, c, height, width), (k, _, r, s) = x.shape, w.shape
    sizes = {"N": batch, "C": c, "H": height, "W": width, "K": k, "R": r, "S": s}
    arrays = f"x:{kind.name}[N,C,H,W] w:{kind.name}[K,C//{groups},R,S]"
    arrays += "" if bias is None else f" b:{kind.name}[K]"
    # Small sizes keep the filter and whole groups.
    few, many = groups * min(c // groups, 8), groups * min(k // groups, 8)
    least_h, least_w = dy * (r - 1) + 1, dx * (s - 1) + 1
    small = {**sizes, "N": min(batch, 2), "C": few, "K": many,
             "H": min(height, max(16, least_h)), "W": min(width, max(16, least_w))}  # fmt: skip
    ragged = {**small, "N": 1, "C": groups, "K": groups, "H": least_h + 3, "W": least_w + 4}
    return Computation(
        "conv2d",
        f"Convolution of {kind.name}: {c} to {k} channels, {r} x {s}, stride {sy} x {sx}.",
        f"{arrays} -> y:{kind.name}[N,K,{rows},{columns}]",
        f"torch.nn.functional.conv2d(x, w, {'None' if bias is None else 'b'}, "
        f"({sy}, {sx}), ({py}, {px}), ({dy}, {dx}), {groups})",
        sizes,
        [(small, ""), (ragged, "ragged: odd sizes, few channels")],
        f"2*N*K*({rows})*({columns})*(C//{groups})*R*S",
        f"{kind.size}*(N*C*H*W + K*(C//{groups})*R*S + N*K*({rows})*({columns}))",
        "compute",
        RUNG.format(
            precision=precision(kind), header=kind.header, T=kind.cuda, groups=groups,
            bias="" if bias is None else f"const {kind.cuda}* b, ",
            start="0" if bias is None else "float(b[k])",
            P=rows, Q=columns, height=_c(rows), width=_c(columns),
            sy=sy, sx=sx, py=py, px=px, dy=dy, dx=dx,
        ),
        "conv2d" if kind.name == "f32" else "conv2d_bf16",
    )  # fmt: skip


def _c(text: str) -> str:
    """An expression of Python in C++: sizes are not negative."""
    return text.replace("//", "/")


def _pair(value: int | Sequence[int]) -> tuple[int, int]:
    if isinstance(value, int):
        return value, value
    return (int(value[0]), int(value[-1]))
