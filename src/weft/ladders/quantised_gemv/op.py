"""A layer with int4 weights for one token: G groups of 128 weights in each of N rows."""

import numpy as np

from weft.measure import Case, Op


def reference(x, w, s):
    q = np.stack((w & 15, w >> 4), -1).reshape(*s.shape, 128) - 8.0
    return ((q * x.reshape(-1, 128)).sum(-1) * s).sum(-1)


EAGER = (
    "(torch.stack((w & 15, w >> 4), -1).reshape(s.shape[0], -1, 128).sub(8.0)"
    " * s[:, :, None]).reshape(s.shape[0], -1).to(x.dtype) @ x"
)
op = Op(
    "quantised_gemv",
    "x:bf16[128*G] w:u8[N,64*G] s:f32[N,G] -> y:bf16[N]",
    reference=reference,
    cases=[
        Case(N=64, G=16),
        Case(N=37, G=9, why="ragged: parts of blocks, of warps and of steps along K"),
        Case(N=5, G=1, why="fewer weights than a warp reads at once"),
    ],
    bench=[Case(N=8192, G=64), Case(N=28672, G=32), Case(N=4096, G=112)],
    flops="256*N*G",
    bytes="68*N*G + 256*G + 2*N",
    peers=[EAGER, f"compile: {EAGER}"],
    ceiling="read",
    reduce="128*G",
    target="limit 0.80",
)
