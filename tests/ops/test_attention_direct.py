"""Attention with few queries whose keys and values go straight to registers."""

from __future__ import annotations

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


@pytest.mark.parametrize(("head", "size"), [(128, 16), (64, 96)])
def test_pages(head: int, size: int) -> None:
    """Pages in an order that is not theirs, sequences of different lengths, one without keys."""
    lengths = torch.tensor([150, 0, 17], dtype=torch.int32)
    most = -(-150 // size)
    table = torch.tensor([(7 * i + 3) % (3 * most) for i in range(3 * most)]).view(3, most).int()
    key, value = (drawn(3 * most, size, 2, head, seed=n, dtype=HALF) for n in (1, 2))
    q = drawn(3, 4, 1, head, seed=3, dtype=HALF)
    with weft.sanitize():
        out = by("16 queries, 4 warps, direct", "attention_paged", q, key, value, table, lengths)
    for i, length in enumerate(lengths.tolist()):
        k, v = (x[table[i].long()].flatten(0, 1)[:length].transpose(0, 1) for x in (key, value))
        if not length:
            assert not out[i].any()
            continue
        close(out[i], by_torch(q[i].double(), k.double(), v.double(), enable_gqa=True))


def test_pages_are_chosen_for_whole_steps_only() -> None:
    """A page of other sizes is read row by row."""
    q, lengths = torch.empty(1, 1, 1, 128, dtype=HALF), torch.tensor([40], dtype=torch.int32)
    table = torch.zeros(1, 4, dtype=torch.int32)
    for size, direct in ((32, True), (24, False)):
        key = torch.empty(4, size, 1, 128, dtype=HALF)
        choice = weft.ops.explain(weft.ops.attention_paged, q, key, key, table, lengths).choice
        assert any("direct" in c.name for c in (choice.used, *choice.others)) == direct
