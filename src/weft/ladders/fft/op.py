"""The complex Fourier transform of rows, in float. Lengths are powers of two."""

import numpy as np

from weft.measure import Case, Op


def reference(x, w, staged):
    y = np.fft.fft(x[..., 0] + 1j * x[..., 1])
    return np.stack([y.real, y.imag], -1)


def numbers(rng, shape):
    return rng.standard_normal(shape).astype(np.float32)


def roots(rng, shape, n):
    """exp(-2 pi i k / n) for k < n, rounded once."""
    turns = np.exp(-2j * np.pi * np.arange(n) / n)
    return np.stack([turns.real, turns.imag], -1).astype(np.float32)


def staged(rng, shape, n):
    """The same numbers in the order in which the stages of weft.ops.fft need them."""
    from weft.ops.families.fft import lengths, tables  # imports torch

    table = tables.stage_roots(lengths.stages(n)[0])
    made = np.zeros(shape, np.float32)
    if table is not None:
        values = table.make().numpy()
        made[: len(values)] = np.stack([values.real, values.imag], -1)
    return made


op = Op(
    "fft",
    "x:f32[rows,n,2] w:f32[n,2] staged:f32[n,2] -> y:f32[rows,n,2]",
    reference=reference,
    cases=[
        Case(rows=20, n=64),
        Case(rows=3, n=16, why="a thread for a row, and no whole block of rows"),
    ],
    bench=[Case(rows=2**25 // n, n=n) for n in (64, 256, 1024, 4096, 8192)],
    # 5 n log2 n for a row; expressions have no logarithm.
    flops="5*rows*n*(6 if n<=64 else 8 if n<=256 else 10 if n<=1024 else 12 if n<=4096 else 13)",
    bytes="16*rows*n",
    peers=["torch.view_as_real(torch.fft.fft(torch.view_as_complex(x)))"],
    target="peer 1.0",
    reduce="n",
    fill={"x": numbers, "w": roots, "staged": staged},
)
