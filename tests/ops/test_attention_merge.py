"""attention_merge: attention over two sets of keys, combined in place."""

from __future__ import annotations

from typing import Any

import pytest

import draw

torch = pytest.importorskip("torch")

import weft  # noqa: E402
from weft.ops.core import library  # noqa: E402


def merge(*tensors: Any) -> Any:
    return library.call("attention_merge")(*tensors)


def drawn(shape: tuple[int, ...], dtype: Any = torch.float32) -> list[Any]:
    """Results, their logarithms, a part, its logarithms."""
    made = draw.seeded(len(shape) + shape[-1])
    out, part = made.normal(shape), made.normal(shape).to(dtype)
    lse, more = (made.normal(shape[:-1]) * 8 for _ in range(2))
    return [out, lse, part, more]


def expected(out: Any, lse: Any, part: Any, more: Any) -> tuple[Any, Any]:
    """The same in float64."""
    a, b = lse.double(), more.double()
    total = torch.logaddexp(a, b)
    weights = ((x - total).exp().nan_to_num(0.0)[..., None] for x in (a, b))
    old, new = weights
    return old * out.double() + new * part.double(), total


def close(out: Any, lse: Any, want: tuple[Any, Any]) -> None:
    torch.testing.assert_close(out.double(), want[0], rtol=2e-6, atol=2e-6)
    torch.testing.assert_close(lse.double(), want[1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("width", "dtype"),
    [
        (64, torch.bfloat16),  # 8 lanes of 8 elements
        (20, torch.float16),  # vectors of 4
        (17, torch.bfloat16),  # single elements
        (256, torch.float32),  # a lane has two vectors
    ],
)
def test_widths(width: int, dtype: Any) -> None:
    tensors = drawn((2, 3, 5, width), dtype)
    want = expected(*tensors)
    empty = merge(*tensors)
    assert empty.numel() == 0
    close(*tensors[:2], want)


def test_rows_in_the_midst() -> None:
    """A slice of the rows, in the memory order of models; the others stay as they are."""
    out, lse, part, more = drawn((2, 6, 3, 24))
    out, part = (x.transpose(1, 2) for x in (out, part))
    lse, more = (x.mT for x in (lse, more))
    before, rows = out.clone(), slice(2, 5)
    want = expected(out[:, :, rows], lse[:, :, rows], part[:, :, rows], more[:, :, rows])
    merge(out[:, :, rows], lse[:, :, rows], part[:, :, rows], more[:, :, rows])
    close(out[:, :, rows], lse[:, :, rows], want)
    assert torch.equal(out[:, :, :2], before[:, :, :2]) and torch.equal(
        out[:, :, 5:], before[:, :, 5:]
    )


def test_rows_without_keys() -> None:
    """One side, the other, or both have no keys; weights far apart are 0 and 1."""
    out, lse, part, more = drawn((1, 1, 5, 8))
    infinite = -torch.inf
    lse[0, 0], more[0, 0] = (
        torch.tensor([0.0, infinite, infinite, 500.0, -500.0]),
        torch.tensor([infinite, 2.0, infinite, -500.0, 500.0]),
    )
    out[0, 0, 1:3] = 0
    kept = out.clone()
    merge(out, lse, part, more)
    rows = [kept[0, 0, 0], part[0, 0, 1], kept[0, 0, 2], kept[0, 0, 3], part[0, 0, 4]]
    torch.testing.assert_close(out[0, 0], torch.stack(rows), rtol=1e-6, atol=1e-6)
    assert lse[0, 0].tolist() == [0.0, 2.0, infinite, 500.0, 500.0]


def test_no_rows() -> None:
    merge(*drawn((1, 2, 0, 8)))


def test_is_clean_under_the_sanitizer() -> None:
    tensors = drawn((1, 3, 3, 24), torch.float16)
    want = expected(*tensors)
    with weft.sanitize():
        merge(*tensors)
    close(*tensors[:2], want)


@pytest.mark.parametrize("schedule", ["last", "random:1"])
def test_scheduled(schedule: str) -> None:
    """No lane writes the logarithm of a row before all others have read it."""
    tensors = drawn((1, 3, 3, 24), torch.float16)
    want = expected(*tensors)
    with weft.schedule(schedule):
        merge(*tensors)
    close(*tensors[:2], want)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda o, s, p, m: (o.half(), s, p, m), "do not fit each other"),
        (lambda o, s, p, m: (o, s, p.double(), m), "part torch.float64"),
        (lambda o, s, p, m: (o, s, p[:, :, :1], m), "do not fit each other"),
        (lambda o, s, p, m: (o, s[:, :, :1], p, m), "do not fit each other"),
        (lambda o, s, p, m: (o[0], s[0], p[0], m[0]), "do not fit each other"),
        (lambda o, s, p, m: (o, s, p.mT.contiguous().mT, m), "not contiguous"),
    ],
    ids=["dtype of out", "dtype of part", "rows", "logarithms", "dimensions", "strides"],
)
def test_refused(change: Any, message: str) -> None:
    with pytest.raises(weft.ArgumentError, match=message):
        merge(*change(*drawn((1, 2, 3, 8))))
