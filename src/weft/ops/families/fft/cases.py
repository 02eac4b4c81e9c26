"""Fourier transforms of any length along any dimension."""

from __future__ import annotations

import random
from typing import Any

import torch

from weft.ops.sweep import draw
from weft.ops.sweep.case import Case, Draw
from weft.ops.sweep.draw import Call

NORMS = ("backward", "ortho", "forward")


def _line(name: str, dtypes: tuple[str, ...], whole: bool = True) -> Draw:
    def drawn(rng: random.Random, most: int) -> Call:
        shape = draw.shape(rng, (1, 2, 2, 3), most)
        dim = -1 if rng.random() < 0.7 else rng.randrange(len(shape))
        options: dict[str, Any] = {"dim": dim, "norm": rng.choice(NORMS)}
        if not whole:  # the length of a half spectrum's tensor: even or odd
            options["n"] = max(1, 2 * (shape[dim] - 1) + rng.randrange(2))
        elif rng.random() < 0.2:
            options["n"] = max(1, shape[dim] + rng.randint(-3, 3))
        return Call(name, (draw.tensor(rng, shape, rng.choice(dtypes)),), options)

    return drawn


def _plane(name: str, dtype: str) -> Draw:
    def drawn(rng: random.Random, most: int) -> Call:
        shape = draw.shape(rng, (2, 3), most)
        return Call(name, (draw.tensor(rng, shape, dtype),), {"norm": rng.choice(NORMS)})

    return drawn


RFFT = Case("rfft", _line("rfft", ("float32",)), torch.fft.rfft)
CASES = (
    Case("fft", _line("fft", ("complex64", "complex64", "float32")), torch.fft.fft),
    Case("ifft", _line("ifft", ("complex64",)), torch.fft.ifft, shared=True),
    RFFT,
    RFFT.with_backward(roundings=8, shared=True),
    Case("irfft", _line("irfft", ("complex64",), whole=False), torch.fft.irfft),
    Case("fft2", _plane("fft2", "complex64"), torch.fft.fft2, shared=True),
    Case("ifft2", _plane("ifft2", "complex64"), torch.fft.ifft2, shared=True),
    Case("rfft2", _plane("rfft2", "float32"), torch.fft.rfft2, shared=True),
)
