"""Timelines in the lab: whole programs, launches of a form, and what their pages may do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the lab is not installed: pip install 'weft-gpu[lab]'")

from lab_client import JOB, Lab, running
from weft.lab import job, origins
from weft.lab.process import LabWorker

pytestmark = pytest.mark.sim
PROGRAM: dict[str, Any] = origins.opened("example:frames")


@pytest.fixture(scope="module")
def worker() -> Iterator[LabWorker]:
    one = LabWorker(limit=60, memory=4 << 30)
    yield one
    one.close()


@pytest.fixture(scope="module")
def lab(worker: LabWorker) -> Iterator[Lab]:
    with running(worker, python=True) as one:
        yield one


@pytest.mark.parametrize(
    ("source", "program"),
    [
        ("int main() {}", True),
        ("  auto main(int n, char** words) -> int {}", True),
        ("// int main() {}\n__global__ void f() {}", False),
        ("/*\nint main() {}\n*/", False),
        ("__global__ void domain(int main) {}", False),
    ],
)
def test_a_source_with_main_is_a_program(source: str, program: bool) -> None:
    assert job.read({"kind": "cuda", "source": source}).is_program is program


def test_the_launches_of_a_form_have_a_timeline(lab: Lab) -> None:
    answer = lab.post("do/timeline", {**JOB, "launches": 2 * JOB["launches"]})
    assert "page" not in answer and "trace" not in answer, "the page asks for them"
    page = lab.request("GET", f"/api/timeline?run={answer['run']}")
    policy = page.headers["content-security-policy"]
    assert "sandbox allow-scripts" in policy and "default-src 'none'" in policy
    assert "allow-same-origin" not in policy, "its script has neither cookie nor server"
    assert "timeline of kernel.cu" in page.text
    kept = lab.request("GET", f"/api/trace.json?run={answer['run']}")
    assert kept.headers["content-disposition"].startswith("attachment")
    names = [e["name"] for e in json.loads(kept.text)["traceEvents"]]
    assert names.count("turn") == 2
    gone = lab.get("timeline", run="other")
    assert "no longer kept" in gone["error"]["text"]
    # Nothing is recorded any more.
    assert lab.post("do/run", JOB)["ok"]
    once = lab.post("do/timeline", JOB)
    trace = lab.get("trace.json", run=once["run"])
    assert [e["name"] for e in trace["traceEvents"]].count("turn") == 1


def test_a_program_asks_first(worker: LabWorker) -> None:
    with running(worker) as lab:
        for action in ("run", "profile", "timeline", "check", "sanitize"):
            assert lab.post(f"do/{action}", PROGRAM) == {"ok": False, "needs": "python"}
        assert lab.post("debug/start", {"job": PROGRAM}) == {"ok": False, "needs": "python"}
        assert lab.post("do/inspect", PROGRAM)["ok"], "which executes nothing"


def test_a_program_runs_is_profiled_and_has_a_timeline(lab: Lab) -> None:
    assert lab.post("do/run", PROGRAM)["said"].strip().endswith("86.6021")
    profiled = lab.post("do/profile", PROGRAM)
    assert [one["kernel"] for one in profiled["launches"]] == ["settle"]
    assert any(line["executions"] for line in profiled["launches"][0]["lines"])
    answer = lab.post("do/timeline", PROGRAM)
    trace = lab.get("trace.json", run=answer["run"])
    names = [e["name"] for e in trace["traceEvents"]]
    assert names.count("settle") == 3 and names.count("HtoD") == 3 and names.count("DtoH") == 1
    assert any("critical path" in block.get("text", "") for block in answer["says"])
    failed = lab.post("do/run", {**PROGRAM, "source": "int main() { return 3; }"})
    assert "exit code 3" in failed["error"]["text"]


@pytest.mark.parametrize("action", ["check", "sanitize", "debug"])
def test_other_actions_take_kernels(lab: Lab, action: str) -> None:
    asked = {"job": PROGRAM} if action == "debug" else PROGRAM
    answer = lab.post("debug/start" if action == "debug" else f"do/{action}", asked)
    assert f"{action} takes kernels" in answer["error"]["text"]
    assert "Run, Profile, Timeline" in answer["error"]["text"]
