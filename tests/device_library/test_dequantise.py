"""weft/dequantise.cuh, against NumPy: every weight of every format."""

from __future__ import annotations

import numpy as np
import pytest

from device_library import run
from everyday import bfloat16, from_bfloat16

BYTES = np.arange(256, dtype=np.uint8)


def of_half(bits: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # NumPy on ARM reports signalling NaNs
        return bits.view(np.float16).astype(np.float32)


def e4m3(byte: np.ndarray) -> np.ndarray:
    exponent, fraction = (byte >> 3 & 15).astype(int), (byte & 7) / 8
    size = np.where(exponent, 2.0 ** (exponent - 7) * (1 + fraction), 2.0**-6 * fraction)
    size[byte & 0x7F == 0x7F] = np.nan
    return np.where(byte & 0x80, -size, size).astype(np.float32)


def int4(byte: np.ndarray) -> np.ndarray:
    return np.stack((byte & 15, byte >> 4), -1).reshape(-1).astype(np.float32) - 8


FORMATS = {
    "INT4": int4,
    "INT8": lambda byte: byte.view(np.int8).astype(np.float32),
    "E4M3": e4m3,
    "E5M2": lambda byte: of_half(byte.astype(np.uint16) << 8),
}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("ctype", ["__half", "__nv_bfloat16"])
def test_every_weight(form: str, ctype: str) -> None:
    """In the order that x is brought into."""
    want = FORMATS[form](BYTES).reshape(-1, 8)
    x = np.arange(want.size, dtype=np.uint16).reshape(want.shape)
    y, order, floats = np.zeros_like(x), np.zeros_like(x), np.zeros_like(want)
    name = f"eights<Weights::{form}, {ctype}>"
    words = [a.view(np.uint32) for a in (BYTES, x, y, order)]
    run("dequantise", name, (1, len(want)), *words, floats)
    np.testing.assert_array_equal(floats, want)
    got = of_half(y) if ctype == "__half" else from_bfloat16(y)
    np.testing.assert_array_equal(got, want.reshape(-1)[order.reshape(-1)].reshape(want.shape))
    if ctype == "__nv_bfloat16" and not np.isnan(want).any():
        np.testing.assert_array_equal(from_bfloat16(bfloat16(want)), want)  # none is rounded


@pytest.mark.parametrize("ctype", ["__half", "__nv_bfloat16"])
def test_weights_with_an_offset(ctype: str) -> None:
    """The order is that of the weights without it: word i has weights i and i + 4."""
    want = int4(BYTES).reshape(-1, 8)
    y, offset = np.zeros_like(want, np.uint16), np.zeros(len(want), np.float32)
    run(
        "dequantise",
        f"offsets<{ctype}>",
        (1, len(want)),
        *(a.view(np.uint32) for a in (BYTES, y)),
        offset,
    )
    got = of_half(y) if ctype == "__half" else from_bfloat16(y)
    pairs = want.reshape(-1, 2, 4).transpose(0, 2, 1).reshape(want.shape)
    np.testing.assert_array_equal(got - offset[:, None], pairs)
    assert np.ptp(offset) == 0 and offset[0] > 8


def test_words_are_pairs() -> None:
    x = np.array([0x3C004000, 1], np.uint32)
    halves, bfloats = np.zeros_like(x), np.zeros_like(x)
    run("dequantise", "pairs", (1, 2), x, halves, bfloats)
    np.testing.assert_array_equal(halves, x)
    np.testing.assert_array_equal(bfloats, x)
