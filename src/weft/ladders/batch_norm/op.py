"""Batch norm in training: each channel is normalised by its own mean and variance."""

from weft.measure import Case, Op


def reference(x, w, b):
    centred = x - x.mean(axis=(0, 2), keepdims=True)
    var = (centred**2).mean(axis=(0, 2), keepdims=True)
    return centred / (var + 1e-5) ** 0.5 * w[:, None] + b[:, None]


op = Op(
    "batch_norm",
    "x:f32[N,C,S] w:f32[C] b:f32[C] -> y:f32[N,C,S]",
    reference=reference,
    cases=[
        Case(N=4, C=6, S=256),
        Case(N=3, C=5, S=49, why="ragged: planes of no whole vectors"),
        Case(N=2, C=3, S=9000, why="several blocks for each channel"),
    ],
    bench=[
        Case(N=64, C=64, S=112 * 112, why="ResNet-50, after the first convolution"),
        Case(N=64, C=256, S=56 * 56),
        Case(N=64, C=512, S=28 * 28),
        Case(N=64, C=1024, S=14 * 14),
        Case(N=64, C=2048, S=7 * 7),
    ],
    flops="8*N*C*S",
    bytes="8*N*C*S",
    peers=[
        "torch.nn.functional.batch_norm(x, None, None, w, b, True)",
        "compile: torch.nn.functional.batch_norm(x, None, None, w, b, True)",
    ],
    target="peer 1.0",
)
