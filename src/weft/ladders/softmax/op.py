"""Softmax over rows."""

import numpy as np

from weft.measure import Case, Op


def reference(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


op = Op(
    "softmax",
    "x:f32[rows,n] -> y:f32[rows,n]",
    reference=reference,
    cases=[
        Case(rows=6, n=1024),
        Case(rows=3, n=1000, why="ragged: no whole warps, whole vectors of four"),
        Case(rows=5, n=77, why="ragged: no whole vectors either"),
        Case(rows=2, n=20000, why="a row of several blocks"),
        Case(rows=1, n=60000, why="registers and shared memory of an SM"),
        Case(rows=1, n=140000, why="too long for an SM"),
        Case(rows=4, n=1),
    ],
    bench=[Case(rows=2**28 // n, n=n) for n in (1024, 4096, 8192, 16384, 32768, 65536, 131072)],
    flops="5*rows*n",
    bytes="8*rows*n",
    peers=["torch.softmax(x, -1)", "compile: torch.softmax(x, -1)"],
    target="limit 0.90",
)
