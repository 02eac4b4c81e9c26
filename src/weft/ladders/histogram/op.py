"""The number of times that each of 256 values occurs in an array."""

import numpy as np

from weft.measure import Case, Op

op = Op(
    "histogram",
    "x:i32[n] -> counts:i32[256]",
    reference=lambda x: np.bincount(x, minlength=256),
    cases=[Case(n=8192), Case(n=5003, why="ragged"), Case(n=1)],
    bench=[Case(n=2**28), Case(n=2**28, constant=1, why="one value only: every count collides")],
    flops="0",
    bytes="4*n",
    peers=["torch.bincount(x, minlength=256)", "torch.histc(x, 256, 0, 255)"],
    ceiling="read",
    fill={
        "x": lambda rng, shape, constant=0: (
            np.full(shape, 7, np.int32) if constant else rng.integers(0, 256, shape, np.int32)
        )
    },
    target="limit 0.90",
)
