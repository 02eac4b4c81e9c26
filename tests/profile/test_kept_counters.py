"""Counters that benchmarks of predictions keep, and the rows that they make anew."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import weft
from folders import ROOT
from weft.device import models
from weft.measure.profile.prediction.demand import SampledLaunch, demand_of_sample
from weft.measure.profile.sampling.blocks import sampling

sys.path.insert(0, str(ROOT / "benchmarks"))
import kept
import predict

pytestmark = pytest.mark.sim
SOURCE = "__global__ void scale(float* x) { x[blockIdx.x * 256 + threadIdx.x] *= 2; }"


def test_kept_counters_predict_the_same(tmp_path: Path) -> None:
    times = 0

    def count() -> list[SampledLaunch]:
        nonlocal times
        times += 1
        with sampling(models.get("h200")) as found:
            weft.cuda(SOURCE).scale[512, 256](np.zeros(512 * 256, np.float32))
        return found.launches

    (first,), (again,) = (kept.launches(tmp_path / "new", "scale", count) for _ in range(2))
    assert times == 1 and kept.path(tmp_path / "new", "scale").is_file()
    before, after = (demand_of_sample(one, models.get("h200")) for one in (first, again))
    assert before.units == after.units and before.latency == after.latency
    made = predict.row("l", "scale", "n=1", "CUDA C++", 1e-6, [first])
    assert predict.is_current(made)
    del made["launches"][0]["code"]
    assert not predict.is_current(made)


def test_a_row_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    names = {"ladder": "l", "case": "n=1"}
    for made in (
        names | {"rung": "a", "blind": False, "value": 1},
        {"ladder": "l", "rung": "b", "failed": "not counted in 40 s"},
        names | {"rung": "b", "blind": True, "value": 2},
        names | {"rung": "a", "blind": True, "value": 3},
    ):
        predict.write(record, made)
    rows = [json.loads(line) for line in record.read_text("utf-8").splitlines()]
    assert [(row["rung"], row["value"], row["blind"]) for row in rows] == [
        ("a", 3, False),
        ("b", 2, True),
    ]
