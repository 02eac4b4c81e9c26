"""The plan of a ring: which scores each rank computes in each step, and the picture of it."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import weft
from folders import ROOT
from weft.distributed.blocks import LAYOUTS, Ring


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("world", [1, 2, 3, 8])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_score_is_computed_once(layout: str, world: int, causal: bool) -> None:
    """By positions, the blocks of all steps are the scores that the mask leaves."""
    made = weft.distributed.schedule(layout, world, causal, length=4 * world)
    assert made.grid == made.length
    cells = [
        (q, k)
        for step in made.steps
        for one in step
        for q, first, run in one.cells
        for k in range(first, first + run)
    ]
    every = range(made.length)
    assert sorted(cells) == [(q, k) for q in every for k in every if k <= q or not causal]
    assert len(cells) == sum(made.work)


@pytest.mark.parametrize("causal", [False, True])
def test_packed_sequences(causal: bool) -> None:
    """Each token sees its own sequence, whatever the shards cut."""
    starts = (0, 3, 3, 9, 10, 11, 24)
    ring = Ring("contiguous", 4, 6, causal, starts)
    of = [sum(token >= start for start in starts) for token in range(24)]
    seen = {
        (q, k) for q in range(24) for k in range(24) if of[q] == of[k] and (k <= q or not causal)
    }
    found = []
    for rank in range(4):
        for source in range(4):
            found += _scores(ring, rank, source)
    assert len(found) == len(set(found)) and set(found) == seen


def _scores(ring: Ring, rank: int, source: int) -> list[tuple[int, int]]:
    block = ring.block(rank, source)
    if block is None:
        assert ring.hops(source) < (rank - source) % 4 or (rank - source) % 4 < ring.hops(source)
        return []
    assert ring.hops(source) >= (rank - source) % 4
    ends = block.starts or (0, max(block.queries, block.keys))
    number = [sum(row >= end for end in ends) for row in range(ends[-1])]
    return [
        (rank * ring.rows + block.first_query + i, source * ring.rows + block.first_key + j)
        for i in range(block.queries)
        for j in range(block.keys)
        if (not block.starts or number[i] == number[j]) and (j <= i or not block.causal)
    ]


def test_idle_share_and_bytes() -> None:
    long = {name: weft.distributed.schedule(name, 4, length=65536) for name in LAYOUTS}
    assert round(long["contiguous"].idle, 3) == 0.429
    assert long["zigzag"].idle < long["striped"].idle < 1e-3
    # Three hops of each shard; contiguous keys stop at the last rank: 3 + 2 + 1 hops.
    assert long["zigzag"].sent == 3 * 65536 * 4096
    assert long["contiguous"].sent == 6 * 65536 // 4 * 4096
    assert weft.distributed.schedule("striped", 1).sent == 0


def test_shows_itself(tmp_path: Path) -> None:
    made = weft.distributed.schedule("zigzag", 3, length=12)
    assert isinstance(made, weft.distributed.Schedule)
    assert str(made).startswith("zigzag, 3 ranks, 12 tokens, causal")
    assert "10 of 0" in str(made)
    assert json.loads(json.dumps(made.to_dict()))["idle"] == made.idle
    made.save(tmp_path / "ring.svg")
    picture = ElementTree.parse(tmp_path / "ring.svg").getroot()
    assert {e.get("fill") for e in picture.iter() if e.get("fill")} >= {"#4269d0", "#efb118"}
    made.save(tmp_path / "ring.html")
    page = (tmp_path / "ring.html").read_text()
    assert "<svg" in page and f"{made.idle:.1%}" in page
    assert "iframe" in made._repr_html_()
    with pytest.raises(weft.Error, match="cannot write the file"):
        made.save(tmp_path / "missing" / "ring.html")


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("spiral", 2), {}, "no layout 'spiral'"),
        (("zigzag", 0), {}, "world is 0, expected an integer from 1 on"),
        (("zigzag", "2"), {}, "world is '2'"),
        (("zigzag", 2), {"length": 6}, "length is 6, expected a multiple of 4\n  next: length=4"),
        (("striped", 2), {"token_bytes": 0}, "token_bytes is 0"),
    ],
)
def test_refused(arguments: Any, options: Any, message: str) -> None:
    with pytest.raises(weft.ArgumentError, match=message):
        weft.distributed.schedule(*arguments, **options)


def test_the_pictures_of_the_document_are_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    pictures = importlib.import_module("ring_tables").files()
    assert len(pictures) == len(LAYOUTS)
    for path, text in pictures.items():
        assert path.read_text() == text, "run `make tables`"


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match=r"weft\.distributed has no 'ring'; there are"):
        weft.distributed.__getattr__("ring")
