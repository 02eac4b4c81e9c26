"""Convolution by 3 x 3 filters, batch norm with given statistics, ReLU and 2 x 2 max pooling."""

import numpy as np

from weft.measure import Case, Op

EPS = 1e-5


def reference(x, w, mean, var, gamma, beta):
    (n, _, height, width), filters = x.shape, len(w)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    y = np.einsum("nchwrs,kcrs->nkhw", windows, w, optimize=True)
    each = [t[:, None, None] for t in (mean, np.sqrt(var + EPS), gamma, beta)]
    z = np.maximum((y - each[0]) / each[1] * each[2] + each[3], 0)
    return z.reshape(n, filters, height // 2, 2, width // 2, 2).max(axis=(3, 5))


def positive(rng, shape):
    """Variances."""
    return rng.uniform(0.5, 2, shape).astype(np.float32)


op = Op(
    "conv_block",
    "x:f32[N,C,2*P,2*Q] w:f32[K,C,3,3] mean:f32[K] var:f32[K] gamma:f32[K] beta:f32[K]"
    " -> out:f32[N,K,P,Q]",
    reference=reference,
    fill={"var": positive},
    cases=[
        Case(N=2, C=4, P=7, Q=7, K=64),
        Case(N=3, C=5, P=5, Q=3, K=70, why="ragged: images, channels, rows, columns and filters"),
        Case(N=1, C=1, P=1, Q=1, K=1),
    ],
    bench=[Case(N=256, C=32, P=7, Q=7, K=64), Case(N=64, C=64, P=28, Q=28, K=64)],
    flops="72*N*K*P*Q*C",
    bytes="4*(4*N*C*P*Q + 9*K*C + N*K*P*Q)",
    peers=[
        "torch.nn.functional.max_pool2d(torch.relu(torch.nn.functional.batch_norm("
        "torch.nn.functional.conv2d(x, w, padding=1), mean, var, gamma, beta)), 2)",
        "compile: torch.nn.functional.max_pool2d(torch.relu(torch.nn.functional.batch_norm("
        "torch.nn.functional.conv2d(x, w, padding=1), mean, var, gamma, beta)), 2)",
    ],
    ceiling="compute",
    reduce="9*C",
    target="peer 1.0",
)
