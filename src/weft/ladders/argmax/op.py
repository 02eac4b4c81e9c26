"""The index of the largest element: the first of equal elements, or the first NaN."""

import numpy as np

from weft.measure import Case, Op

op = Op(
    "argmax",
    "x:f32[n] -> y:i64[1]",
    reference=lambda x: np.argmax(x, keepdims=True),
    cases=[Case(n=16384), Case(n=10007, why="ragged"), Case(n=1)],
    bench=[Case(n=2**28)],
    flops="n",
    bytes="4*n",
    peers=["torch.argmax(x, 0, keepdim=True)", "compile: torch.argmax(x, 0, keepdim=True)"],
    ceiling="read",
    target="limit 0.97",
)
