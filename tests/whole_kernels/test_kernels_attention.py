"""Layer norm, RMS norm, softmax and flash attention, against NumPy in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest

from everyday import close, load, normal
from weft import cdiv

ROWS = [(1, 1), (3, 33), (9, 256), (5, 1000)]


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize(("rows", "columns"), ROWS)
def test_layer_norm(rows: int, columns: int) -> None:
    x, weight, bias = normal((rows, columns), 1), normal(columns, 2), normal(columns, 3)
    x += 3
    y = np.empty_like(x)
    load("norm").layer_norm[cdiv(rows, 4), 128](x, weight, bias, y, rows, columns, 1e-5)
    exact = x.astype(np.float64)
    spread = exact.var(1, keepdims=True) + 1e-5
    close(y, (exact - exact.mean(1, keepdims=True)) / np.sqrt(spread) * weight + bias, 1e-4, 1e-5)


@pytest.mark.parametrize(("rows", "columns"), ROWS)
@pytest.mark.parametrize("block", [32, 256])
def test_rms_norm(rows: int, columns: int, block: int) -> None:
    x = normal((rows, columns), 1).astype(np.float16)
    weight = normal(columns, 2).astype(np.float16)
    y = np.empty_like(x)
    load("norm").rms_norm[rows, block](x, weight, y, columns, 1e-6)
    exact = x.astype(np.float64)
    scale = 1 / np.sqrt((exact**2).mean(1, keepdims=True) + 1e-6)
    close(y, exact * scale * weight, rtol=2e-3, atol=1e-6)


@pytest.mark.parametrize(("rows", "columns"), ROWS)
def test_online_softmax(rows: int, columns: int) -> None:
    x = normal((rows, columns), 1) * 10
    x[:, columns // 2 + 1 :: 3] = -np.inf  # masked positions
    y = np.empty_like(x)
    load("norm").online_softmax[rows, 128](x, y, columns)
    close(y, softmax(x.astype(np.float64)), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("length", "dim"), [(1, 16), (32, 32), (70, 16), (100, 32)])
def test_flash_attention(length: int, dim: int, causal: bool) -> None:
    batch, heads = 2, 3
    q, k, v = (normal((batch, heads, length, dim), i) for i in range(3))
    out = np.full_like(q, np.nan)
    scale = 1 / math.sqrt(dim)
    kernel = load("norm").kernel(f"flash<{dim}>")
    shared = 4 * (3 * 32 * dim + 32 * 33)
    kernel[(cdiv(length, 32), heads, batch), 32, shared](q, k, v, out, length, heads, scale, causal)
    scores = np.einsum("bhid,bhjd->bhij", q.astype(np.float64), k) * scale
    if causal:
        scores[..., np.triu(np.ones((length, length), bool), 1)] = -np.inf
    close(out, softmax(scores) @ v, rtol=1e-4, atol=1e-5)
