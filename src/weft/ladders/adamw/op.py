"""A step of AdamW for t tensors of n elements: 28 bytes of memory traffic per parameter."""

import numpy as np

from weft.measure import Case, Op

LR, BETA1, BETA2, EPS, DECAY, STEP = 1e-3, 0.9, 0.999, 1e-8, 1e-2, 10


def reference(p, g, m, v):
    m = m + (1 - BETA1) * (g - m)
    v = BETA2 * v + (1 - BETA2) * g * g
    root = np.sqrt(v / (1 - BETA2**STEP)) + EPS
    return p * (1 - LR * DECAY) - LR / (1 - BETA1**STEP) * m / root, m, v


def positive(rng, shape):
    return rng.random(shape, np.float32) + np.float32(0.1)


def answer(p, g, m, v):
    root = (BETA2 * v + (1 - BETA2) * g * g).div_(1 - BETA2**STEP).sqrt_().add_(EPS)
    return p * (1 - LR * DECAY) - LR / (1 - BETA1**STEP) * (m + (1 - BETA1) * (g - m)) / root


op = Op(
    "adamw",
    "p:f32[t,n] g:f32[t,n] m:f32[t,n] v:f32[t,n] -> p2:f32[t,n] m2:f32[t,n] v2:f32[t,n]",
    reference=reference,
    cases=[
        Case(t=2, n=2048),
        Case(t=3, n=1001, why="ragged: the second tensor is not aligned"),
        Case(t=5, n=1),
    ],
    bench=[Case(t=32, n=2**22)],
    flops="15*t*n",
    bytes="28*t*n",
    # Means and gradients of one sign: a difference of close numbers has no accurate digits.
    fill={name: positive for name in "gmv"},
    peers=[
        "compile: (lambda m2, v2: (p * (1 - 1e-5) - 1e-3 / (1 - 0.9**10) * m2 / (v2.sqrt()"
        " / (1 - 0.999**10) ** 0.5 + 1e-8), m2, v2))(m + 0.1 * (g - m), 0.999 * v + 0.001 * g * g)"
    ],
    answer=answer,
    target="limit 0.93",
)
