"""Scaled dot-product attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.climbing.extract.computation import (
    Computation,
    element,
    needed,
    precision,
    refused,
    smaller,
    tensor,
)

OPERATIONS = (
    "aten::_scaled_dot_product_flash_attention",
    "aten::_scaled_dot_product_efficient_attention",
    "aten::_scaled_dot_product_cudnn_attention",
    "aten::scaled_dot_product_attention",
    "weft::attention",
)

RUNG = """// idea:   three kernels, one thread per result: scores, softmax of each row, weights
//         times values. The m x s scores of every head are written to memory and read again
{precision}// scratch: scores:f32[b*h*m*s]
// launch: multiply_keys<<<(cdiv(s, 128), m, b * h), 128>>>
// launch: softmax<<<cdiv(b * h * m, 128), 128>>>
// launch: multiply_values<<<(cdiv(d, 128), m, b * h), 128>>>

{header}// The keys that a query sees.
__device__ int seen(int row, int s) {{ return {seen}; }}

// The head of keys and values: h heads of queries share g of them.
__device__ size_t shared_head(int head, int h, int g) {{
    return size_t(head / h) * g + head % h / (h / g);
}}

__global__ void multiply_keys(const {T}* q, const {T}* k, float* scores, int h, int g, int m, int s,
                              int d) {{
    int key = blockIdx.x * 128 + threadIdx.x, row = blockIdx.y;
    if (key >= seen(row, s)) return;
    size_t head = blockIdx.z;
    q += (head * m + row) * d, k += (shared_head(head, h, g) * s + key) * d;
    float sum = 0;
    for (int i = 0; i < d; ++i) sum += float(q[i]) * float(k[i]);
    scores[(head * m + row) * s + key] = sum * {scale};
}}

__global__ void softmax(float* scores, int b, int h, int m, int s) {{
    size_t row = blockIdx.x * 128 + threadIdx.x;
    if (row >= size_t(b) * h * m) return;
    int keys = seen(row % m, s);
    float *x = scores + row * s, most = x[0], sum = 0;
    for (int i = 1; i < keys; ++i) most = fmaxf(most, x[i]);
    if (isinf(most) && most < 0) most = 0;  // all are -inf: their weights are 0
    for (int i = 0; i < keys; ++i) sum += expf(x[i] - most);
    if (sum == 0) sum = 1;
    for (int i = 0; i < keys; ++i) x[i] = expf(x[i] - most) / sum;
}}

__global__ void multiply_values(const float* scores, const {T}* v, {T}* o, int h, int g, int m,
                                int s, int d) {{
    int c = blockIdx.x * 128 + threadIdx.x, row = blockIdx.y;
    if (c >= d) return;
    size_t head = blockIdx.z, from = shared_head(head, h, g);
    float sum = 0;
    for (int key = 0; key < seen(row, s); ++key)
        sum += scores[(head * m + row) * s + key] * float(v[(from * s + key) * d + c]);
    o[(head * m + row) * d + c] = {T}(sum);
}}
"""


def describe(operation: str, operands: Mapping[str, Any]) -> Computation:
    """Attention of one layer; causal as PyTorch has it: query i sees keys up to i."""
    q, k, v = (needed(operands, name) for name in ("query", "key", "value"))
    if tensor(operands, "attn_mask", "attn_bias") is not None or operands.get("window"):
        raise refused("its attention has a mask", "attn_mask", "none, or is_causal=True")
    if len(q.shape) != 4 or v.shape != k.shape:
        raise refused("its attention has other shapes", f"{q}; {k}; {v}", "batch, heads, rows, d")
    kind, causal = element(q), bool(operands.get("is_causal"))
    (b, h, m, d), (_, g, s, _) = q.shape, k.shape
    scale = operands.get("scale")
    sizes = {"b": b, "h": h, "g": g, "m": m, "s": s, "d": d}
    few = smaller(sizes, {"b": 1, "h": 2 * h // g, "g": 2, "m": 64, "s": 64, "d": 64})
    few["h"] = h // g * few["g"]
    options = f", is_causal={causal}, scale={scale}, enable_gqa={h != g}"
    return Computation(
        "attention",
        f"{'Causal attention' if causal else 'Attention'} of {kind.name}: {h} heads of {d}.",
        f"q:{kind.name}[b,h,m,d] k:{kind.name}[b,g,s,d] v:{kind.name}[b,g,s,d] in -4..4 -> "
        f"o:{kind.name}[b,h,m,d]",
        f"torch.nn.functional.scaled_dot_product_attention(q, k, v{options})",
        sizes,
        [(few, ""), ({**few, "m": min(m, 37), "s": s if s < 37 else 37}, "ragged: no whole tiles")],
        f"{2 if causal else 4}*b*h*m*s*d",
        f"{2 * kind.size}*b*(h*m + g*s)*d",
        "compute",
        RUNG.format(
            precision=precision(kind),
            header=kind.header,
            T=kind.cuda,
            seen="row < s ? row + 1 : s" if causal else "s",
            scale="rsqrtf(d)" if scale is None else f"{float(scale):e}f",
        ),
        "attention",
        # Weights may be rounded for tensor cores, as in PyTorch.
        "" if kind.name == "f32" else f'    accumulate="{kind.name}",\n    reduce="4",\n',
    )
