"""The sum of an array."""

import numpy as np

from weft.measure import Case, Op

op = Op(
    "reduce",
    "x:f32[n] -> y:f32[1]",
    reference=lambda x: np.sum(x, keepdims=True),
    cases=[
        Case(n=16384),
        Case(n=10007, why="ragged: neither whole blocks nor whole vectors of four"),
        Case(n=1),
    ],
    bench=[Case(n=2**28)],
    flops="n",
    bytes="4*n",
    peers=["torch.sum(x, 0, keepdim=True)", "compile: torch.sum(x, 0, keepdim=True)"],
    ceiling="read",
    target="limit 0.97",
)
