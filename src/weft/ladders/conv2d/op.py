"""Convolution of two dimensions in float, stride 1, with as many pixels in the result as in x."""

import numpy as np

from weft.measure import Case, Op


def reference(x, w):
    (_, _, H, W), R = x.shape, w.shape[2]
    padded = np.pad(x, ((0, 0), (0, 0), (R // 2, R // 2), (R // 2, R // 2)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (R, R), axis=(2, 3))
    return np.einsum("nchwrs,kcrs->nkhw", windows[:, :, :H, :W], w, optimize=True)


op = Op(
    "conv2d",
    "x:f32[N,C,H,W] w:f32[K,C,R,R] -> y:f32[N,K,H,W]",
    reference=reference,
    cases=[
        Case(N=2, C=4, H=16, W=16, K=32, R=3),
        Case(N=1, C=3, H=7, W=9, K=5, R=5, why="ragged: rows, channels and a larger filter"),
        Case(N=3, C=5, H=4, W=3, K=33, R=1, why="no neighbours: a matrix product"),
    ],
    bench=[
        Case(N=32, C=64, H=56, W=56, K=64, R=3),
        Case(N=32, C=256, H=14, W=14, K=256, R=3),
        Case(N=256, C=1, H=28, W=28, K=32, R=3),
    ],
    flops="2*N*K*H*W*C*R*R",
    bytes="4*(N*C*H*W + K*C*R*R + N*K*H*W)",
    # As torch.nn.functional.conv2d calls it, with the last argument, allow_tf32, off.
    peers=[
        "torch._convolution(x, w, None, [1, 1], [w.shape[2] // 2] * 2, [1, 1], False, [0, 0], 1, "
        "False, False, True, False)"
    ],
    ceiling="compute",
    target="peer 1.0",
)
