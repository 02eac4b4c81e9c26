"""`weft climb mnist`: the versions of a training step, each checked against the one before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from weft.cli import app
from weft.train.versions import TITLES

torch = pytest.importorskip("torch")
from weft.train import times  # noqa: E402  they need torch
from weft.train.versions import climb, naive_step, rows  # noqa: E402

PARTS = ["load", "forward", "backward", "update"]


def _invoke(*args: str) -> Any:
    return CliRunner().invoke(app, ["climb", *args])


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(climb.BATCH, "cpu", 2)
    monkeypatch.setitem(times.STEPS, "cpu", 1)


def test_versions_are_in_order() -> None:
    assert tuple(version.title for version in rows.VERSIONS) == TITLES


@pytest.mark.usefixtures("small")
def test_numpy_pytorch_and_naive_kernels(tmp_path: Path) -> None:
    record = tmp_path / "climbs.jsonl"
    result = _invoke("mnist", "--to", "2", "--json", "--record", str(record))
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    assert json.loads(record.read_text()) == printed
    versions = printed["versions"]
    assert [v["title"] for v in versions] == [*TITLES[:3]]
    for one in versions:
        assert one["right"] and len(one["losses"]) == climb.STEPS
        assert [*one["times"]["parts"]] == PARTS
        assert len(set(one["losses"])) == climb.STEPS  # each step changes the weights
    assert 0 < versions[2]["apart"][1] < 1e-5  # other sums than PyTorch's, and nearly equal


@pytest.mark.usefixtures("small")
def test_a_wrong_version_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bias without its gradient changes the weights alone, after one step."""
    wrong = rows.VERSIONS[1].make

    def make(settings: Any, device: Any) -> Any:
        step = wrong(settings, device)
        step.parts.model[11].bias.requires_grad_(False)
        return step

    bad = rows.Version("wrong", "", make)
    monkeypatch.setattr(climb, "VERSIONS", (*rows.VERSIONS[:1], bad))
    result = _invoke("mnist", "--to", "1")
    assert result.exit_code == 1 and "✗ not those of 00" in result.stdout


@pytest.mark.slow
def test_all_versions() -> None:
    result = _invoke("mnist")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("✓ those of") == len(TITLES) - 1
    assert "host time of the simulated GPU" in result.stdout


def test_messages() -> None:
    assert "allowed: 0 to 4" in _invoke("mnist", "--to", "7").stderr
    assert "takes no --from and no --html" in _invoke("mnist", "--html", "x.html").stderr
    listed = json.loads(_invoke("--json").stdout)
    assert {"name": "mnist", "rungs": [*TITLES]} in listed


def test_every_naive_kernel_is_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file has no kernel that the step does not need."""
    launched = set()
    monkeypatch.setattr(naive_step, "_launch", lambda name, *rest: launched.add(name))
    step = naive_step.NaiveStep(climb.Settings(batch=2), torch.device("cpu"))
    step.eager()
    text = Path(naive_step.__file__).with_name("naive.cu").read_text()
    assert launched == {line.split("(")[0].split()[-1] for line in text.splitlines()
                        if line.startswith("__global__")}  # fmt: skip
    assert step.stages.keys() == set(PARTS[1:])
