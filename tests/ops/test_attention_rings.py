"""Attention with few queries whose warps have rings of keys and values of their own, for Hopper."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import weft  # noqa: E402
from candidates import by  # noqa: E402
from exact_attention import exact  # noqa: E402
from few_queries import BFLOAT, HALF, before_infinity, called, close, drawn, masked  # noqa: E402
from weft.ops.families.attention import forward, ring_model  # noqa: E402
from weft.ops.families.attention.ring_model import RingTile  # noqa: E402

TILES = ring_model.TILES  # as calls take them
SMALL, LARGE = "2 rings of 2 x 2K", "3 rings of 2 x 4K"
CALLS = {
    # tile, query, key, dtype, options
    "full rings again": (SMALL, (1, 2, 1, 64), (1, 2, 300, 64), HALF, {}),
    "warps without keys": (LARGE, (1, 4, 1, 128), (1, 1, 30, 128), BFLOAT, {}),
    "parts": (f"{SMALL}, keys in 3", (2, 2, 1, 64), (2, 1, 211, 64), HALF, {}),
    "heads that share keys": (LARGE, (1, 6, 5, 128), (1, 2, 150, 128), HALF, {"is_causal": True}),
    "a window": (SMALL, (1, 1, 9, 64), (1, 1, 200, 64), BFLOAT, {"window": (20, 30)}),
    "a negative scale": (SMALL, (1, 1, 2, 64), (1, 1, 40, 64), HALF, {"scale": -0.2}),
    "rows that end within a slab": (LARGE, (1, 2, 20, 104), (1, 2, 50, 104), HALF, {}),
    "rows that are no whole vectors": (SMALL, (1, 2, 3, 61), (1, 2, 50, 61), HALF, {}),
}


@pytest.fixture(autouse=True)
def all_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, with tiles of little code."""
    small, large = RingTile(2, 2, 2048, resident=2), RingTile(3, 2, 4096, resident=2)
    monkeypatch.setattr(forward, "LISTED", 1000)
    monkeypatch.setattr(ring_model, "TILES", (small, large))
    monkeypatch.setattr(ring_model, "LEAST", 0)
    monkeypatch.setattr(ring_model, "MOST_ROWS", 20)


@pytest.mark.parametrize("subject", CALLS)
def test_calls(subject: str) -> None:
    """Steps and parts without keys, rows behind the last one, heads that share keys."""
    with weft.sanitize():
        called(*CALLS[subject])


@pytest.mark.parametrize("schedule", ["last", "random:1"])
def test_scheduled(schedule: str) -> None:
    """The bits do not depend on the order of warps and copies."""
    first = called(*CALLS["parts"])
    with weft.schedule(schedule):
        assert torch.equal(called(*CALLS["parts"]), first)


def test_strides_as_models_have_them() -> None:
    """Keys and values [batch, keys, heads, elements], and the logarithms of the sums."""
    q, k, v = (drawn(2, n, 2, 64, seed=n).transpose(1, 2) for n in (3, 70, 71))
    v = v[:, :, :70]
    out, lse = by(f"16 queries, {SMALL}", "attention_lse", q, k, v)
    want, logs = exact((q, k, v), False)
    close(out, want)
    torch.testing.assert_close(lse.double(), logs, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", ["boolean", "added"])
def test_masks(kind: str) -> None:
    masked(SMALL, kind)


def test_values_behind_the_last_key_are_not_read() -> None:
    before_infinity(SMALL)


def test_where_they_are_candidates() -> None:
    """Not in pages, with dropout, for other heads or with many queries."""

    def named(*shape: int, dtype: Any = HALF) -> bool:
        x = torch.empty(*shape, dtype=dtype)
        choice = weft.ops.explain(weft.ops.attention, x, x, x).choice
        return any("rings" in c.name for c in (choice.used, *choice.others))

    assert named(1, 1, 5, 128) and named(1, 1, 5, 64, dtype=BFLOAT)
    assert named(1, 1, 20, 64) and not named(1, 1, 21, 64)
    assert not named(1, 1, 5, 96) and not named(1, 1, 5, 64, dtype=torch.float32)


def test_the_tiles_fit() -> None:
    """So many blocks fit in an SM, and the rings hold the results of the warps."""
    for tile in TILES:
        for head in ring_model.HEADS:
            size = tile.shared(head, 8)
            assert tile.keys(head) % 16 == 0
            assert tile.resident * (size + 1024 + 256) <= 228 << 10
            assert size <= (227 << 10) - 256
