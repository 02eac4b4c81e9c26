"""Causal attention of bfloat16: softmax(q k' / sqrt(d)) v, computed in float.

The m queries are the last of s: m = s trains a model, m = 1 generates one word after s others.
"""

import numpy as np

from weft.measure import Case, Op


def reference(q, k, v):
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    seen = np.tril(np.ones(scores.shape[-2:], bool), k.shape[2] - q.shape[2])
    scores = np.where(seen, scores, -np.inf)
    most = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(most == -np.inf, 0, most))
    total = e.sum(axis=-1, keepdims=True)
    # A query whose scores are all -inf has the result 0, as in PyTorch.
    return e / np.where(total == 0, 1, total) @ v


op = Op(
    "attention",
    # Values are bounded: hidden keys have the weight 0, and 0 times infinity would be NaN.
    "q:bf16[b,h,m,d] k:bf16[b,h,s,d] v:bf16[b,h,s,d] in -4..4 -> o:bf16[b,h,m,d]",
    reference=reference,
    cases=[
        Case(b=1, h=2, m=96, s=96, d=32),
        Case(b=1, h=1, m=77, s=77, d=32, why="ragged: no whole tiles"),
        Case(b=2, h=1, m=1, s=300, d=32, why="one query"),
    ],
    bench=[
        Case(b=4, h=16, m=1024, s=1024, d=128),
        Case(b=4, h=16, m=4096, s=4096, d=128),
        Case(b=4, h=16, m=1, s=32768, d=128),
    ],
    flops="4*b*h*m*s*d if m == 1 else 2*b*h*m*s*d",
    bytes="4*b*h*(m + s)*d",
    peers=["torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=q.shape[2] > 1)"],
    ceiling="compute",
    target="peer 1.0",
    # Weights are rounded to bf16 for the tensor cores, as in PyTorch; sums are not.
    accumulate="bf16",
    reduce="4",
)
