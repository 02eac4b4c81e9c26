"""Running sums: y[i] = x[0] + ... + x[i]."""

import numpy as np

from weft.measure import Case, Op

op = Op(
    "scan",
    "x:f32[n] -> y:f32[n]",
    reference=lambda x: np.cumsum(x),
    cases=[
        Case(n=16384),
        Case(n=10007, why="ragged: neither whole tiles nor whole vectors of four"),
        Case(n=1),
    ],
    bench=[Case(n=2**28)],
    flops="n",
    bytes="8*n",
    peers=["torch.cumsum(x, 0)", "compile: torch.cumsum(x, 0)"],
    reduce="n",
    target="limit 0.85",
)
