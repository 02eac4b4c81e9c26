"""The largest element of an array, or NaN if there is one, as in PyTorch and NumPy."""

import numpy as np

from weft.measure import Case, Op

op = Op(
    "reduce_max",
    "x:f32[n] -> y:f32[1]",
    reference=lambda x: np.max(x, keepdims=True),
    cases=[Case(n=16384), Case(n=10007, why="ragged"), Case(n=1)],
    bench=[Case(n=2**28)],
    flops="n",
    bytes="4*n",
    peers=["torch.amax(x, 0, keepdim=True)", "compile: torch.amax(x, 0, keepdim=True)"],
    ceiling="read",
    target="limit 0.97",
)
