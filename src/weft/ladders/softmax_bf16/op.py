"""Softmax over rows of bfloat16, computed in float."""

from weft.climbing.ladder import find
from weft.measure import Case, Op

op = Op(
    "softmax_bf16",
    "x:bf16[rows,n] -> y:bf16[rows,n]",
    reference=find("softmax").op.reference,
    cases=[
        Case(rows=6, n=1024),
        Case(rows=3, n=1000, why="ragged: no whole warps, whole vectors of eight"),
        Case(rows=5, n=77, why="ragged: no whole vectors either"),
        Case(rows=1, n=40000, why="registers and shared memory of an SM"),
        Case(rows=1, n=140000, why="too long for an SM"),
    ],
    bench=[Case(rows=2**28 // n, n=n) for n in (1024, 4096, 8192, 16384, 32768, 65536, 131072)],
    flops="5*rows*n",
    bytes="4*rows*n",
    peers=["torch.softmax(x, -1)", "compile: torch.softmax(x, -1)"],
    target="limit 0.90",
)
