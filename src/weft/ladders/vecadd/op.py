"""Vector addition: one operation per twelve bytes, limited by memory bandwidth."""

from weft.measure import Case, Op

op = Op(
    "vecadd",
    "a:f32[n] b:f32[n] -> c:f32[n]",
    reference=lambda a, b: a + b,
    cases=[
        Case(n=4096),
        Case(n=5000, why="ragged: neither whole blocks nor whole vectors of four"),
        Case(n=1),
    ],
    bench=[Case(n=2**28)],
    flops="n",
    bytes="12*n",
    peers=["torch.add(a, b)", "compile: torch.add(a, b)"],
    target="limit 0.97",
)
