"""Attention on several ranks: against float64 on 1, 2, 3, 4 and 8 of them, and wrong arguments."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from folders import ROOT
from limits import PROCESS_SECONDS

torch = pytest.importorskip("torch")
import ring_ranks  # noqa: E402  it needs torch
import weft  # noqa: E402

pytestmark = [
    pytest.mark.skipif(
        not torch.distributed.is_available() or not torch.distributed.is_gloo_available(),
        reason="needs PyTorch with gloo",
    ),
    pytest.mark.xdist_group("ring"),
]
WORLDS = (1, 2, 3, 4, 8)
LIMITS = {"helpers": 0.0, "zigzag causal bfloat16": 1e-2, "autocast": 1e-2}
"""Largest relative errors; others are of float32."""
FLOAT = 1e-6


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The answers of all worlds; their processes are started once."""
    folder = tmp_path_factory.mktemp("ring")
    paths = [str(Path(weft.__file__).parents[1]), str(ROOT / "tests" / "support")]
    # A forked rank has none of its parent's threads: kernels run on one.
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "WEFT_THREADS": "1"}
    command = [sys.executable, ring_ranks.__file__, str(folder), "refused", *map(str, WORLDS)]
    subprocess.run(command, check=True, env=env, timeout=PROCESS_SECONDS)
    return {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}


@pytest.mark.parametrize("world", WORLDS)
def test_results_and_gradients(answers: dict[str, Any], world: int) -> None:
    """Every layout, packed sequences, exchanged heads, and rings of pairs that exchange heads."""
    found = answers[str(world)]
    assert found.keys() == ring_ranks.cases(world).keys()
    wrong = {name: e for name, e in found.items() if not e <= LIMITS.get(name, FLOAT)}
    assert not wrong


REFUSED = {
    "shapes": (
        r"ArgumentError: rank {me} of 2: .*rank 1 differs from rank 0 in the shape of query"
        r"\n  got: rank 1: \[3, 2, 4, 16\]; rank 0: \[1, 2, 4, 16\]"
    ),
    "dtypes": r"rank 1 differs from rank 0 in the dtype\n  got: rank 1: torch.float16",
    "options": r"rank 1 differs from rank 0 in causal\n  got: rank 1: True; rank 0: False",
    "sequences": r"rank 1 differs from rank 0 in cu_seqlens",
    "empty": r"rank {me} of 2: .*this rank has an empty shard",
    "layout": r"rank {me} of 2: .*no layout 'spiral'\n  allowed: contiguous, striped, zigzag",
    "odd rows": r"6 tokens has no zigzag shards for 2 ranks[^$]*pad it to 8 tokens",
    "packed layout": r"packed sequences have no zigzag layout",
    "packed shape": r"do not fit each other[^$]*allowed: \[rows, heads, elements\]",
    "packed length": r"cu_seqlens do not describe 8 rows\n  got: 2 numbers",
    "packed number": r"cu_seqlens do not describe 8 rows\n  got: 0 numbers",
    "key": r"do not fit each other\n  got: query \[1, 2, 4, 16\]",
    "no tensor": r"query is no tensor\n  got: NoneType",
    "heads": r"3 heads of queries and 3 of keys cannot be divided among 2 ranks",
    "no ring": r"layout 'zigzag' needs a ring",
    "length": r"rank {me} of 2: weft.distributed.shard: a sequence of 5 tokens",
    "no tensor to shard": r"x is no tensor\n  got: list",
    "dimension": r"weft.distributed.gather: x has no dimension 2",
    "positions": r"weft.distributed.positions: a sequence of 6 tokens has no zigzag shards",
    "timeout": r"timeout is 0, expected more than 0 seconds",
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("rank", [0, 1])
def test_wrong_arguments(answers: dict[str, Any], case: str, rank: int) -> None:
    said = answers["refused"]["wrong"][rank][case]
    with pytest.raises(weft.Error, match=REFUSED[case].replace("{me}", str(rank))):
        raise weft.Error(said)
    assert said.startswith("ArgumentError")


def test_a_rank_that_refuses(answers: dict[str, Any]) -> None:
    """Both ranks raise, and neither waits."""
    first, second = (found["one empty"] for found in answers["refused"]["wrong"])
    assert first.startswith("RankError: rank 0 of 2: weft.distributed.ring_attention: rank 1 has")
    assert "this rank has an empty shard" in first and second.startswith("ArgumentError: rank 1")


def test_every_refusal_is_expected() -> None:
    assert ring_ranks.REFUSED.keys() == REFUSED.keys() | {"one empty"}


@pytest.mark.parametrize("case", ring_ranks.GONE)
def test_a_rank_that_never_answers(answers: dict[str, Any], case: str) -> None:
    """The others name it; the last one has no answer."""
    *others, last = answers["refused"][case]
    what = "does not answer" if case.startswith("late") else "has ended or cannot be reached"
    assert last is None
    for rank, said in enumerate(others):
        assert said.startswith(f"RankError: rank {rank} of 3: weft.distributed.ring_attention: ")
        assert f"rank 2 {what}" in said


def test_without_processes() -> None:
    q = torch.zeros(1, 1, 4, 16)
    with pytest.raises(weft.ArgumentError, match="has no process group"):
        weft.distributed.ring_attention(q, q, q)
