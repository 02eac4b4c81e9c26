"""Kernels in all three languages: what the lab opens beside each other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("uvicorn", reason="the lab is not installed: pip install 'weft-gpu[lab]'")

from lab_client import Lab, running
from weft.lab import origins
from weft.lab.process import LabWorker
from weft.learn import puzzle

pytestmark = pytest.mark.sim
FAMILIES = ["add", "double"]


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    worker = LabWorker(limit=60, memory=4 << 30)
    with running(worker, python=True) as one:
        yield one
    worker.close()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_has_all_languages_and_each_is_right(lab: Lab, family: str) -> None:
    jobs = lab.get("languages", origin=f"example:{family}_numba")["jobs"]
    assert [job["kind"] for job in jobs] == ["cuda", "triton", "numba"]
    rows = []
    for job in jobs:
        assert lab.post("do/check", job)["passed"], job["title"]
        (launch,) = lab.post("do/profile", job)["launches"]
        rows.append({(s["name"], label) for s in launch["sections"] for label, _ in s["rows"]})
    assert len(rows[0] & rows[1] & rows[2]) > 20, "the same counters"


def test_puzzles_have_all_languages_and_most_sources_one(lab: Lab) -> None:
    name = puzzle.puzzles()[0].name
    assert origins.languages(f"puzzle:{name}/numba") == [
        f"puzzle:{name}/{key}" for key in ("cuda", "triton", "numba")
    ]
    for origin in ("example:transpose", "learn:04/strip", "ladder:transpose/rung_00_naive", ""):
        assert lab.get("languages", origin=origin)["jobs"] == []
