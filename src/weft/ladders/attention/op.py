"""Causal attention of bfloat16: softmax(q k' / sqrt(d)) v, computed in float."""

import numpy as np

from weft.measure import Case, Op


def reference(q, k, v):
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True) @ v


op = Op(
    "attention",
    # Values are bounded: hidden keys have the weight 0, and 0 times infinity would be NaN.
    "q:bf16[b,h,s,d] k:bf16[b,h,s,d] v:bf16[b,h,s,d] in -4..4 -> o:bf16[b,h,s,d]",
    reference=reference,
    cases=[
        Case(b=1, h=2, s=96, d=32),
        Case(b=1, h=1, s=77, d=32, why="ragged: no whole tiles"),
        Case(b=2, h=1, s=1, d=32, why="one query"),
    ],
    bench=[Case(b=4, h=16, s=s, d=128) for s in (1024, 4096)],
    flops="2*b*h*s*s*d",
    bytes="8*b*h*s*d",
    peers=["torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)"],
    ceiling="compute",
    target="peer 1.0",
    accumulate="bf16",  # weights are rounded to bf16 for the tensor cores, as in PyTorch
)
