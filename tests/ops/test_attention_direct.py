"""Attention with few queries whose keys and values go straight to registers."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import weft  # noqa: E402
from few_queries import BFLOAT, HALF, before_infinity, called, in_pages, masked  # noqa: E402
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
    with weft.sanitize():
        in_pages("4 warps, direct", head, size)


def test_pages_are_chosen_for_whole_steps_only() -> None:
    """A page of other sizes is read row by row."""
    q, lengths = torch.empty(1, 1, 1, 128, dtype=HALF), torch.tensor([40], dtype=torch.int32)
    table = torch.zeros(1, 4, dtype=torch.int32)
    for size, direct in ((32, True), (24, False)):
        key = torch.empty(4, size, 1, 128, dtype=HALF)
        choice = weft.ops.explain(weft.ops.attention_paged, q, key, key, table, lengths).choice
        assert any("direct" in c.name for c in (choice.used, *choice.others)) == direct
