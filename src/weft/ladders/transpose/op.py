"""Transposition: no arithmetic, eight bytes of memory traffic per element."""

from weft.measure import Case, Op

op = Op(
    "transpose",
    "x:f32[rows,columns] -> y:f32[columns,rows]",
    reference=lambda x: x.T,
    cases=[
        Case(rows=128, columns=128),
        Case(rows=100, columns=67, why="ragged in both directions"),
        Case(rows=1, columns=130, why="one row"),
        Case(rows=130, columns=4, why="narrower than a tile"),
    ],
    bench=[Case(rows=16384, columns=16384)],
    flops="0",
    bytes="8*rows*columns",
    peers=["x.t().contiguous()", "compile: x.t().contiguous()"],
    target="limit 0.92",
)
