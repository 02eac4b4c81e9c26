"""Attention with few queries whose keys and values go straight to registers."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch.nn.functional import scaled_dot_product_attention as by_torch  # noqa: E402

import weft  # noqa: E402
from candidates import by  # noqa: E402
from few_queries import BFLOAT, HALF, before_infinity, called, close, drawn, masked  # noqa: E402
from weft.ops.families.attention import forward  # noqa: E402

CALLS = {
    # tile, query, key, dtype, options
    "warps without keys": ("8 warps, direct", (1, 4, 1, 128), (1, 1, 70, 128), BFLOAT, {}),
    "parts": ("4 warps, direct, keys in 3", (2, 2, 1, 64), (2, 1, 411, 64), HALF, {}),
    "a cluster": (
        "4 warps, direct, cluster of 2", (1, 6, 5, 128), (1, 2, 150, 128), HALF,
        {"is_causal": True},
    ),
    "a window": ("4 warps, direct", (1, 1, 9, 64), (1, 1, 200, 64), BFLOAT, {"window": (20, 30)}),
    "a negative scale": ("8 warps, direct", (1, 1, 2, 64), (1, 1, 40, 64), HALF, {"scale": -0.2}),
}  # fmt: skip


@pytest.fixture(autouse=True)
def all_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "LISTED", 1000)


@pytest.mark.parametrize("subject", CALLS)
def test_calls(subject: str) -> None:
    """Steps and parts without keys, rows behind the last one, heads that share keys."""
    with weft.sanitize():
        called(*CALLS[subject])


@pytest.mark.parametrize("kind", ["boolean", "added"])
def test_masks(kind: str) -> None:
    masked("4 warps, direct", kind)


def test_values_behind_the_last_key_are_not_read() -> None:
    before_infinity("4 warps, direct")


@pytest.mark.parametrize(("head", "size"), [(128, 16), (64, 96), (64, 150)])
def test_pages(head: int, size: int) -> None:
    """Pages in an order that is not theirs, sequences of different lengths, one without keys.

    What follows the last key is not a number. A page of 150 keys has a whole sequence, and no whole
    steps.
    """
    lengths = torch.tensor([150, 0, 17], dtype=torch.int32)
    most = -(-150 // size)
    order = torch.tensor([(7 * i + 3) % (3 * most) for i in range(3 * most)])
    table = order.view(3, most).int()
    key, value = (drawn(3 * most, size, 2, head, seed=n) for n in (1, 2))
    for pages, length in zip(table.long(), lengths.tolist(), strict=True):
        for x in (key, value):
            x[pages] = without_rest(x[pages], length)
    q = drawn(3, 4, 1, head, seed=3)
    with weft.sanitize():
        out = by("16 queries, 4 warps, direct", "attention_paged", q, key, value, table, lengths)
    for i, length in enumerate(lengths.tolist()):
        k, v = (x[table[i].long()].flatten(0, 1)[:length].transpose(0, 1) for x in (key, value))
        if length:
            close(out[i], by_torch(q[i].double(), k.double(), v.double(), enable_gqa=True))
        else:
            assert not out[i].any()


def without_rest(pages: Any, length: int) -> Any:
    rows = pages.flatten(0, 1)
    rows[length:] = torch.nan
    return rows.view(pages.shape)


def test_pages_of_whole_steps_or_one_of_a_sequence() -> None:
    """Several pages of other sizes are read row by row."""
    q, lengths = torch.empty(1, 1, 1, 128, dtype=HALF), torch.tensor([40], dtype=torch.int32)
    for most, size, direct in ((4, 32, True), (4, 24, False), (1, 24, True)):
        table = torch.zeros(1, most, dtype=torch.int32)
        key = torch.empty(4, size, 1, 128, dtype=HALF)
        choice = weft.ops.explain(weft.ops.attention_paged, q, key, key, table, lengths).choice
        assert any("direct" in c.name for c in (choice.used, *choice.others)) == direct
