"""sample: greedy tokens, the tokens that may be drawn, and how often each of them is."""

from __future__ import annotations

import math
from typing import Any

import pytest

import draw

torch = pytest.importorskip("torch")

import weft  # noqa: E402
from weft.errors import ArgumentError  # noqa: E402

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
INF = math.inf


def settings(
    temperature: Any = 1.0, top_k: Any = 0, top_p: Any = 1.0, seed: Any = 1, position: Any = 0
) -> list[Any]:
    """The arguments after the logits; lists have a number for each row."""
    numbers = (temperature, top_k, top_p, seed, position)
    dtypes = (F32, torch.int32, F32, torch.int64, torch.int32)
    return [torch.tensor(n, dtype=d) for n, d in zip(numbers, dtypes, strict=True)]


def allowed(row: Any, temperature: float, top_k: int, top_p: float) -> Any:
    """The probabilities of a row's tokens, in float64; 0 for those that are left out."""
    wide = row.double() / temperature
    if top_k:
        wide = wide.masked_fill(wide < wide.topk(min(top_k, len(wide))).values[-1], -INF)
    p = wide.softmax(0)
    values = p.sort(descending=True).values
    kept = values.cumsum(0) - values < top_p
    kept[0] = True
    least = values[kept].min()
    return torch.where(p >= least, p, 0.0) / p[p >= least].sum()


@pytest.mark.parametrize(
    ("rows", "tokens", "dtype"), [(3, 61, F32), (2, 256, BF16), (1, 1, F32), (2, 5000, F16)]
)
def test_greedy(rows: int, tokens: int, dtype: Any) -> None:
    """The first of the largest: ties are frequent in 16 bits."""
    x = draw.seeded(1).normal(rows, tokens).to(dtype)
    want = [row.tolist().index(max(row.tolist())) for row in x]
    assert weft.ops.sample(x, *settings(temperature=0.0)).tolist() == want


DRAWS = 1024
"""Positions at which a token is drawn."""


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p", "dtype"),
    [(1.0, 0, 1.0, F32), (0.7, 5, 1.0, F32), (1.5, 0, 0.8, BF16), (0.9, 12, 0.6, F16)],
)
def test_each_token_is_drawn_by_its_probability(
    temperature: float, top_k: int, top_p: float, dtype: Any
) -> None:
    """The counts of fixed seeds, within six standard errors; a token that is left out has none."""
    row = (1.5 * draw.seeded(2).normal(20)).to(dtype)
    p = allowed(row, temperature, top_k, top_p)
    given = settings(temperature, top_k, top_p, 7, list(range(DRAWS)))
    found = weft.ops.sample(row.expand(DRAWS, 20), *given)
    counts = torch.bincount(found, minlength=20).double()
    assert not counts[p == 0].any()
    error = (counts - DRAWS * p).abs()
    assert (error <= 6 * (DRAWS * p * (1 - p)).sqrt() + 1).all(), (counts, DRAWS * p)


def test_the_tokens_that_are_kept() -> None:
    """Exactly those of the definition are drawn from a long row, in two ways to the same limit."""
    x = draw.seeded(3).normal(1, 4100)
    p = allowed(x[0], 1.0, 0, 0.01)
    kept = set(torch.nonzero(p)[:, 0].tolist())
    rows, count = 4, len(kept)
    assert 1 < count < 10
    for chosen in ({"top_p": 0.01}, {"top_k": count}):
        given = settings(position=list(range(rows)), **chosen)
        assert set(weft.ops.sample(x.expand(rows, 4100), *given).tolist()) <= kept
    assert weft.ops.sample(x, *settings(top_p=0.0)).item() == int(x.argmax())
    assert weft.ops.sample(x, *settings(top_k=1)).item() == int(x.argmax())


def test_a_row_depends_on_nothing_else() -> None:
    """Rows with settings of their own give what each gives alone; equal seeds draw equal tokens."""
    x = draw.seeded(4).normal(4, 97)
    each = settings([0.0, 1.0, 0.5, 2.0], [0, 3, 0, 50], [1.0, 1.0, 0.9, 0.7],
                    [1, 2, 3, 2**62 + 5], [0, 5, 6, 7])  # fmt: skip
    together = weft.ops.sample(x, *each)
    alone = [weft.ops.sample(x[i : i + 1], *(s[i : i + 1] for s in each)) for i in range(4)]
    assert together.tolist() == [int(a) for a in alone]
    assert together.tolist() == weft.ops.sample(x, *each).tolist()
    spread = torch.stack((x, x), -1)[..., 0]
    assert together.tolist() == weft.ops.sample(spread, *each).tolist()


def test_seeds_and_positions_matter() -> None:
    x = torch.zeros(128, 500)
    places = list(range(128))
    first = weft.ops.sample(x, *settings(position=places)).tolist()
    other = weft.ops.sample(x, *settings(position=places, seed=2)).tolist()
    assert len(set(first)) > 90 and sum(a == b for a, b in zip(first, other, strict=True)) < 5


def test_numbers_that_are_not_finite() -> None:
    """NaN and -infinity are not drawn, +infinity is; a row of them gives one of its tokens."""
    x = torch.tensor([[math.nan, -INF, 0.0], [0.0, INF, 1.0], [math.nan] * 3, [-INF] * 3])
    assert weft.ops.sample(x, *settings(0.0)).tolist() == [2, 1, 0, 0]
    first, second, *others = weft.ops.sample(x, *settings(1.0, top_p=0.9)).tolist()
    assert (first, second) == (2, 1) and all(0 <= token < 3 for token in others)


def test_no_findings() -> None:
    x = draw.seeded(5).normal(2, 300).half()
    with weft.sanitize() as session:
        weft.ops.sample(x, *settings(0.8, 40, 0.9))
    assert not session.findings


def test_no_rows_and_under_compile() -> None:
    assert weft.ops.sample(torch.zeros(0, 5), *settings()).shape == (0,)
    compiled = torch.compile(weft.ops.sample, backend="aot_eager", fullgraph=True)
    x = draw.seeded(6).normal(3, 50)
    assert torch.equal(compiled(x, *settings()), weft.ops.sample(x, *settings()))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({0: torch.zeros(2, 3, 4)}, r"logits must have the shape \[rows, tokens\]"),
        ({0: torch.zeros(2, 0)}, "at least one token"),
        ({0: torch.zeros(2, 4).double()}, "'logits' has a dtype that no kernel takes"),
        ({1: torch.ones(3)}, "temperature must have a number for each row"),
        ({2: torch.zeros(1)}, r"top_k must have .*torch.int32 \[2\] or \[1\]"),
        ({4: torch.zeros(1).int()}, "seed must have a number for each row"),
    ],
)
def test_bad_arguments(change: dict[int, Any], words: str) -> None:
    given = [torch.zeros(2, 4), *settings()]
    for place, value in change.items():
        given[place] = value
    with pytest.raises(ArgumentError, match=f"(?s){words}"):
        weft.ops.sample(*given)
