"""gelu, exact, forward and backward: 20 bytes per element."""

import math

import numpy as np

from weft.measure import Case, Op


def reference(x, dy):
    below = 0.5 * np.vectorize(math.erfc)(-x / math.sqrt(2))
    density = np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    return x * below, dy * (below + x * density)


def answer(x, dy):
    return 0.5 * x * (x * -math.sqrt(0.5)).erfc()


op = Op(
    "gelu",
    "x:f32[n] dy:f32[n] -> y:f32[n] dx:f32[n]",
    reference=reference,
    cases=[
        Case(n=4096),
        Case(n=5003, why="ragged: neither whole blocks nor whole vectors of four"),
        Case(n=1),
    ],
    bench=[Case(n=2**28)],
    flops="40*n",
    bytes="20*n",
    # torch.compile would read x once for both passes, which training cannot.
    peers=["[torch.nn.functional.gelu(x), torch.ops.aten.gelu_backward(dy, x)]"],
    answer=answer,
    target="limit 0.97",
)
