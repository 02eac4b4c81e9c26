"""RMS norm of a sum with a residual, over rows of bfloat16, as between the blocks of LLaMA."""

import numpy as np

from weft.measure import Case, Op


def rounded(x):
    """x as bfloat16 has it: the norm is that of the sum that is stored."""
    bits = x.astype(np.float32).view(np.uint32).astype(np.int64)
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    near = bits.astype(np.uint32).view(np.float32).astype(x.dtype)
    return np.where(np.isfinite(x), near, x)


def reference(x, r, w):
    s = rounded(x + r)
    return s / np.sqrt((s**2).mean(axis=1, keepdims=True) + 1e-6) * w, s


def answer(x, r, w):
    """The same for tensors of float64, at full size."""
    s = (x + r).bfloat16().double()
    return s / (s.square().mean(1, keepdim=True) + 1e-6).sqrt() * w


op = Op(
    "rms_norm",
    "x:bf16[rows,n] r:bf16[rows,n] w:bf16[n] -> y:bf16[rows,n] s:bf16[rows,n]",
    reference=reference,
    cases=[
        Case(rows=6, n=1024),
        Case(rows=5, n=1000, why="ragged: no whole warps, whole vectors of eight"),
        Case(rows=3, n=2048, why="a row of two warps"),
    ],
    bench=[Case(rows=2**27 // n, n=n) for n in (1024, 4096, 8192)],
    flops="5*rows*n",
    bytes="8*rows*n",
    # Both results, as the next block needs the sum too.
    peers=[
        "(lambda s: (torch.nn.functional.rms_norm(s, w.shape, w, 1e-6), s))(torch.add(x, r))",
        "compile: "
        "(lambda s: (torch.nn.functional.rms_norm(s, w.shape, w, 1e-6), s))(torch.add(x, r))",
    ],
    answer=answer,
    target="limit 0.9",
)
