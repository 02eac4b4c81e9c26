"""Cross-entropy of logits and labels: the losses of the rows, and the gradient of their sum."""

import numpy as np

from weft.measure import Case, Op


def reference(x, t):
    from_most = x - x.max(axis=1, keepdims=True)
    e = np.exp(from_most)
    total = e.sum(axis=1, keepdims=True)
    rows = np.arange(len(x))
    d = e / total
    d[rows, t] -= 1
    return d, np.log(total[:, 0]) - from_most[rows, t]


GRADIENT = "torch.func.grad(lambda v: torch.nn.functional.cross_entropy(v, t, reduction='sum'))(x)"
op = Op(
    "cross_entropy",
    "x:bf16[rows,n] t:i64[rows] in 0..n-1 -> d:bf16[rows,n] loss:bf16[rows]",
    reference=reference,
    cases=[
        Case(rows=4, n=4096),
        Case(rows=3, n=1000, why="ragged: no whole warps, whole vectors of eight"),
        Case(rows=3, n=77, why="ragged: no whole vectors either"),
    ],
    bench=[Case(rows=2**30 // n, n=n) for n in (32768, 131072)],
    flops="8*rows*n",
    bytes="4*rows*n",
    peers=[GRADIENT, f"compile: {GRADIENT}"],
    fill={"t": lambda rng, shape, n: rng.integers(0, n, shape)},
    target="limit 0.85",
)
