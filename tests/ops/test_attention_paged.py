"""Attention whose keys and values are in pages."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

import draw

torch = pytest.importorskip("torch")
from torch.nn.functional import scaled_dot_product_attention as by_torch  # noqa: E402

import weft  # noqa: E402
from weft.errors import ArgumentError  # noqa: E402


class Cache(NamedTuple):
    """Pages of keys and values, in an order that is not theirs, and what a sequence has."""

    key: Any
    value: Any
    table: Any
    lengths: Any

    def sequence(self, number: int) -> tuple[Any, Any]:
        """The keys and values of a sequence, [heads, keys, elements]."""
        pages, length = self.table[number].long(), int(self.lengths[number])
        rows = (x[pages].flatten(0, 1)[:length] for x in (self.key, self.value))
        key, value = (x.transpose(0, 1) for x in rows)
        return key, value


def cached(lengths: tuple[int, ...], size: int, heads: int, head: int) -> Cache:
    most = max(-(-n // size) for n in lengths)
    pages = most * len(lengths)
    key, value = (draw.seeded(n).normal(pages, size, heads, head).half() for n in (1, 2))
    order = torch.tensor([(7 * i + 3) % pages for i in range(pages)])
    assert len(set(order.tolist())) == pages
    table = order.view(len(lengths), most).int()
    return Cache(key, value, table, torch.tensor(lengths).int())


def compare(q: Any, cache: Cache, causal: bool, window: tuple[int, int] | None = None) -> None:
    out = weft.ops.attention_paged(q, *cache, is_causal=causal, window=window)
    rows = q.shape[2]
    for i in range(len(q)):
        key, value = cache.sequence(i)
        distance = torch.arange(key.shape[1]) - torch.arange(rows)[:, None] + rows - key.shape[1]
        left, right = window or (1 << 20, 1 << 20)
        mask = (distance >= -left) & (distance <= (0 if causal else right))
        tensors = (q[i].double(), key.double(), value.double())
        want = by_torch(*tensors, attn_mask=mask, enable_gqa=True)
        torch.testing.assert_close(out[i].double(), want, rtol=4e-3, atol=4e-3)


def test_decoding() -> None:
    """One query; shared heads, keys in parts, a page that is not full."""
    q = draw.seeded(5).normal(3, 4, 1, 32).half()
    compare(q, cached((300, 1, 129), 16, 2, 32), causal=False)


def test_one_sequence() -> None:
    """Its pages lie anywhere, too."""
    q = draw.seeded(5).normal(1, 2, 1, 32).half()
    compare(q, cached((70,), 16, 1, 32), causal=False)


def test_several_queries() -> None:
    """The last queries of a sequence, under a causal mask, in a window."""
    q = draw.seeded(5).normal(2, 5, 2, 32).half().transpose(1, 2)
    compare(q, cached((70, 40), 12, 1, 32), causal=True)
    compare(q, cached((70, 40), 12, 1, 32), causal=True, window=(20, 0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lengths": torch.tensor([3])}, "lengths must be a contiguous tensor of int32"),
        ({"table": torch.zeros(2, 1).int()}, "block_table must be a contiguous tensor"),
        ({"key": torch.zeros(1, 8, 1, 12).half()}, "incompatible shapes"),
        ({"key": torch.zeros(1, 8, 1, 16)}, "unsupported dtypes"),
    ],
)
def test_refused(change: dict[str, Any], message: str) -> None:
    cache = cached((8,), 8, 1, 16)._replace(**change)
    with pytest.raises(ArgumentError, match=message):
        weft.ops.attention_paged(torch.zeros(1, 1, 1, 16).half(), *cache)


def test_rows_that_are_no_vectors() -> None:
    cache = cached((8,), 8, 1, 12)
    with pytest.raises(ArgumentError, match="no whole, aligned vectors"):
        weft.ops.attention_paged(torch.zeros(1, 1, 1, 12).half(), *cache)
