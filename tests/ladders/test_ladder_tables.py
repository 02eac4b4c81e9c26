"""The tables of the ladders, from records that are whole, partial or missing."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import weft
from folders import ROOT
from small_ladder import timed

sys.path.insert(0, str(ROOT / "scripts"))

import ladder_tables
import tables

from weft.climbing import ladder
from weft.climbing.records import Climb


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "benchmarks" / "records" / "ladders.jsonl"
    path.parent.mkdir(parents=True)
    monkeypatch.setattr(ladder_tables, "RECORDS", path)
    return path


def write(path: Path, *climbs: Climb) -> None:
    path.write_text("".join(json.dumps(c.to_dict()) + "\n" for c in climbs))


def test_the_times_that_come_with_weft_are_current() -> None:
    files = ladder_tables.files()
    timed = [path.parent.name for path in files]
    untimed = [name for name in ladder.names() if name not in timed]
    assert not untimed, "every ladder has a timed climb"
    stale = [str(path) for path, text in files.items() if path.read_text() != text]
    assert not stale, "run `make tables`"


def test_without_records_the_command_is_said(recorded: Path) -> None:
    said = "--record benchmarks/records/ladders.jsonl` does it"
    assert said in tables.TABLES["ladders"]() and said in tables.TABLES["rungs"]()
    write(recorded, replace(timed(), device="sim", peers={}, limits={}))
    assert said in tables.TABLES["ladders"](), "what was counted has no times"


def test_the_newest_climb_of_each_ladder_counts(
    recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    op = ladder.find("vecadd").op
    monkeypatch.setattr(op.__class__, "goal", property(lambda self: ("limit", 0.97)))
    old = replace(timed(), when="2025-01-01", rungs=timed().rungs[:1])
    write(recorded, old, timed(), replace(timed(), ladder="gone"))
    best = tables.TABLES["ladders"]()
    assert "| vecadd | n=9 | 01 good | 1.25 ms | 80.0% | 1.60 x | `torch.add(a, b)` |" in best
    assert (
        "| 97% of the limit | **not reached** |" in best
        and "NVIDIA H200, torch 2.11, 2026-01-02" in best
    )
    monkeypatch.setattr(op.__class__, "goal", property(lambda self: ("peer", 1.5)))
    assert "| 1.50 x the peer | reached |" in tables.TABLES["ladders"]()
    rungs = tables.TABLES["rungs"]()
    assert "### vecadd" in rungs and "| 00 slow | 8 ms, 12.5% |" in rungs and "gone" not in rungs


def test_a_rung_of_a_lower_precision_and_one_on_its_own_size(recorded: Path) -> None:
    first, second = timed().rungs
    alone = replace(first, times=(replace(first.times[0], case="n=2"),))
    write(recorded, replace(timed(), rungs=(alone, replace(second, precision="tf32"))))
    rungs = tables.TABLES["rungs"]()
    assert "| 00 slow |  | 8 ms, 12.5%, n=2 |" in rungs and "| 01 good (in tf32) | 1.25 ms" in rungs


@pytest.mark.parametrize("text", ["limit", "0.9", "peer >= 1"])
def test_targets_that_cannot_be_read(text: str) -> None:
    said = ("t", "x:f32[n] -> y:f32[n]", lambda x: x, [weft.Case(n=8)])
    with pytest.raises(weft.ArgumentError, match="target cannot be read"):
        weft.Op(*said, target=text)
    assert weft.Op(*said, target="peer 1.0").goal == ("peer", 1)
