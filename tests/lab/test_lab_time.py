"""The predicted time in the lab: the values of `weft predict`, on any GPU, and by line."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the lab is not installed: pip install 'weft-gpu[lab]'")

from lab_client import JOB, Lab
from weft.lab.process import LabWorker
from weft.measure.profile import schema
from weft.measure.profile.result import Profile

pytestmark = pytest.mark.sim


@pytest.fixture(scope="module")
def profiled(lab: Lab) -> dict[str, Any]:
    return lab.post("do/profile", {**JOB, "device": "sim:h200"})


def test_a_profile_ends_with_the_predicted_time_and_stalls_by_line(
    profiled: dict[str, Any],
) -> None:
    launch = profiled["launches"][0]
    assert launch["predicted"].startswith("Predicted: ")
    assert launch["columns"][-1][0] == "time"
    parts = {line["line"]: line["more"][-1] for line in launch["lines"]}
    assert "long scoreboard" in parts[5], "the loads of global memory"


def test_times_are_those_of_weft_predict(
    lab: Lab, worker: LabWorker, profiled: dict[str, Any]
) -> None:
    answer = lab.get("predict", run=profiled["run"], on="h200,a100,h200")
    ours = {one["gpu"]: one for one in answer["launches"][0]}
    assert list(ours) == ["h200", "a100"]
    # The record that the server keeps is the profile itself.
    raw = worker.ask("profile", {**JOB, "device": "sim:h200"})
    profile = schema.value(Profile, raw["records"][0], "profile")
    for key, one in ours.items():
        predicted = profile.predict(key)
        assert (one["seconds"], one["bound"]) == (predicted.seconds, predicted.bound)
        assert [s["line"] for s in one["stalls"]] == [
            s.number for s in predicted.stalls[: len(one["stalls"])]
        ]
    table = next(block for block in answer["blocks"] if "columns" in block)
    assert table["columns"] == ["kernel", "launches", "h200", "h200: bound by", "a100",
                                "a100: bound by"]  # fmt: skip
    assert any("a100 was never measured" in block.get("text", "") for block in answer["blocks"])


def test_wrong_questions_are_refused(lab: Lab, profiled: dict[str, Any]) -> None:
    assert "gpu" in lab.get("predict", run=profiled["run"], on="abacus")["error"]["text"].lower()
    assert "names no GPU" in lab.get("predict", run=profiled["run"], on=",")["error"]["text"]
    gone = lab.get("predict", run="other", on="h200")["error"]["text"]
    assert "no longer kept" in gone and "profile it again" in gone
