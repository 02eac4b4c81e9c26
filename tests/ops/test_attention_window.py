"""Attention in a sliding window: the kernels for all GPUs, and gradients."""

from __future__ import annotations

from typing import Any

import pytest

import draw

torch = pytest.importorskip("torch")
from torch.nn.functional import scaled_dot_product_attention as by_torch  # noqa: E402

import weft  # noqa: E402
from weft.errors import ArgumentError  # noqa: E402

LIMITS = {torch.float32: 4e-6, torch.float16: 4e-3}
WINDOWS = {"before": (20, 0), "on both sides": (9, 30), "after": (-1, 7), "one key": (0, 0)}


def drawn(*shape: int, seed: int, dtype: Any) -> Any:
    return draw.seeded(seed).normal(*shape).to(dtype)


def seen(rows: int, keys: int, window: tuple[int, int], diagonal: int = 0) -> Any:
    """True for the keys that a query sees."""
    left, right = (n if n >= 0 else rows + keys for n in window)
    distance = torch.arange(keys) - torch.arange(rows)[:, None] - diagonal
    return (distance >= -left) & (distance <= right)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("kind", WINDOWS)
def test_window(kind: str, dtype: Any) -> None:
    window = WINDOWS[kind]
    q = drawn(1, 2, 75, 16, seed=1, dtype=dtype)
    k, v = (drawn(1, 1, 80, 16, seed=n, dtype=dtype) for n in (2, 3))
    grad = drawn(1, 2, 75, 16, seed=4, dtype=dtype)
    ours = [x.clone().requires_grad_() for x in (q, k, v)]
    theirs = [x.double().requires_grad_() for x in (q, k, v)]
    out = weft.ops.attention(*ours, window=window, enable_gqa=True)
    want = by_torch(*theirs, attn_mask=seen(75, 80, window), enable_gqa=True)
    limit = LIMITS[dtype]
    torch.testing.assert_close(out.double(), want, rtol=limit, atol=limit)
    out.backward(grad)
    want.backward(grad.double())
    for x, y in zip(ours, theirs, strict=True):
        torch.testing.assert_close(x.grad.double(), y.grad, rtol=5 * limit, atol=5 * limit)


def test_window_of_one_query() -> None:
    """Keys in parts: those before the window are left out."""
    q = drawn(1, 4, 1, 32, seed=1, dtype=torch.float16)
    k, v = (drawn(1, 2, 700, 32, seed=n, dtype=torch.float16) for n in (2, 3))
    out = weft.ops.attention(q, k, v, window=(0, 400), enable_gqa=True)
    want = by_torch(q.double(), k[:, :, :401].double(), v[:, :, :401].double(), enable_gqa=True)
    torch.testing.assert_close(out.double(), want, rtol=4e-3, atol=4e-3)


def test_ragged_window() -> None:
    """A window is counted from the last query and the last key of a sequence."""
    lengths, keys = (70, 3), (90, 40)
    starts = [torch.tensor([0, *n]).cumsum(0).int() for n in (lengths, keys)]
    q = drawn(73, 1, 16, seed=1, dtype=torch.float16)
    k, v = (drawn(130, 1, 16, seed=n, dtype=torch.float16) for n in (2, 3))
    out = weft.ops.attention_varlen(q, k, v, *starts, 70, 90, window=(25, 2))
    row = key = 0
    for n, m in zip(lengths, keys, strict=True):
        parts = (q[row : row + n], k[key : key + m], v[key : key + m])
        mask = seen(n, m, (25, 2), m - n)
        want = by_torch(*(x.transpose(0, 1).double() for x in parts), attn_mask=mask)
        ours = out[row : row + n].transpose(0, 1).double()
        torch.testing.assert_close(ours, want, rtol=4e-3, atol=4e-3)
        row, key = row + n, key + m


@pytest.mark.parametrize("window", [(1,), (1, -2), (1, 2, 3)])
def test_refused(window: tuple[int, ...]) -> None:
    x = torch.zeros(1, 1, 4, 16)
    with pytest.raises(ArgumentError, match=r"window is .*, expected \(left, right\)"):
        weft.ops.attention(x, x, x, window=window)
