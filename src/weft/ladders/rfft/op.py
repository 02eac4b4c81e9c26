"""The Fourier transform of long real rows: the first half of the spectrum, in float.

Lengths are powers of two. No block holds a row, so every rung needs several passes over memory.
"""

import numpy as np

from weft.measure import Case, Op


def reference(x, roots, pair_roots):
    y = np.fft.rfft(x)
    return np.stack([y.real, y.imag], -1)


def numbers(rng, shape):
    return rng.standard_normal(shape).astype(np.float32)


def tables(shape, n):
    """Roots of unity for the stages of both passes of a complex transform of length n."""
    from weft.ops.families.fft import lengths
    from weft.ops.families.fft.tables import stage_roots  # imports torch

    made = np.zeros(shape, np.float32)
    for table, length in zip(made, lengths.split(n), strict=True):
        units = stage_roots(lengths.stages(length)[0])
        if units is not None:
            values = units.make().numpy()
            table[: len(values)] = np.stack([values.real, values.imag], -1)
    return made


op = Op(
    "rfft",
    "x:f32[rows,n] roots:f32[2,1024,2] pair_roots:f32[2,1024,2] -> y:f32[rows,n//2+1,2]",
    reference=reference,
    cases=[Case(rows=2, n=256), Case(rows=3, n=128, why="passes of different lengths")],
    bench=[Case(rows=64, n=2**20), Case(rows=1024, n=2**16)],
    # 2.5 n log2 n for a row.
    flops="2.5*rows*n*(20 if n>65536 else 16)",
    bytes="8*rows*n",
    peers=["torch.view_as_real(torch.fft.rfft(x))"],
    target="peer 1.0",
    reduce="n",
    fill={
        "x": numbers,
        "roots": lambda rng, shape, n: tables(shape, n),
        "pair_roots": lambda rng, shape, n: tables(shape, n // 2),
    },
)
