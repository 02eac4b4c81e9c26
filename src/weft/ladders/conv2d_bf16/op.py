"""Convolution of two dimensions of bfloat16, summed in float, stride 1, as many pixels as in x."""

from weft.climbing.ladder import find
from weft.measure import Case, Op

op = Op(
    "conv2d_bf16",
    "x:bf16[N,C,H,W] w:bf16[K,C,R,R] -> y:bf16[N,K,H,W]",
    reference=find("conv2d").op.reference,
    cases=[
        Case(N=2, C=16, H=16, W=16, K=32, R=3),
        Case(N=1, C=3, H=7, W=9, K=5, R=5, why="ragged: rows, channels and a larger filter"),
        Case(N=3, C=5, H=4, W=3, K=33, R=1, why="no neighbours: a matrix product"),
    ],
    bench=[
        Case(N=32, C=64, H=56, W=56, K=64, R=3),
        Case(N=32, C=256, H=14, W=14, K=256, R=3),
        Case(N=4, C=128, H=128, W=128, K=128, R=3),
    ],
    flops="2*N*K*H*W*C*R*R",
    bytes="2*(N*C*H*W + K*C*R*R + N*K*H*W)",
    peers=["torch.nn.functional.conv2d(x, w, padding=w.shape[2] // 2)"],
    ceiling="compute",
    reduce="C*R*R",
    target="peer 1.0",
)
