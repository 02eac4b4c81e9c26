"""Layer norm over rows of bfloat16, with weights and biases, computed in float."""

import numpy as np

from weft.measure import Case, Op


def reference(x, w, b):
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5) * w + b


op = Op(
    "layer_norm",
    "x:bf16[rows,n] w:bf16[n] b:bf16[n] -> y:bf16[rows,n]",
    reference=reference,
    cases=[
        Case(rows=6, n=1024),
        Case(rows=3, n=1000, why="ragged: no whole warps, whole vectors of eight"),
        Case(rows=5, n=77, why="ragged: no whole vectors either"),
        Case(rows=2, n=2048, why="a row of two warps"),
    ],
    bench=[Case(rows=2**28 // n, n=n) for n in (1024, 4096, 16384, 65536, 131072)],
    flops="8*rows*n",
    bytes="4*rows*n",
    peers=[
        "torch.nn.functional.layer_norm(x, w.shape, w, b)",
        "compile: torch.nn.functional.layer_norm(x, w.shape, w, b)",
    ],
    target="limit 0.85",
)
