"""Work on a Ray cluster: one node of this machine, whose GPUs are names only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import cluster_tasks
import draw
import pool_tasks
import weft
from weft.cli import app
from weft.cluster import spread
from weft.cluster.connect import PATIENT, connect
from weft.cluster.team import team
from weft.ops.core import choose, library
from weft.ops.sweep import run, tune, whole, worker
from weft.ops.sweep.cases import CASES
from weft.tasks.cluster import bench
from weft.tasks.cluster import tune as cluster_tune
from weft.tasks.cluster.gpus import ClusterOptions

pytestmark = [
    pytest.mark.sim,
    pytest.mark.slow,  # Ray starts many processes: a minute when the machine is idle
    pytest.mark.xdist_group("ray"),
    # Ray leaves sockets and processes of its own to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
CPUS = GPUS = 2


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of a cluster, which ends with the file."""
    ray = pytest.importorskip("ray", reason="Ray has no wheel for this machine")
    from ray.cluster_utils import Cluster

    for module in (cluster_tasks, pool_tasks):
        ray.cloudpickle.register_pickle_by_value(module)
    node = {"num_cpus": CPUS, "num_gpus": GPUS, "object_store_memory": 80 * 2**20}
    more = {"include_dashboard": False, "_system_config": PATIENT}
    cluster = Cluster(initialize_head=True, head_node_args={**node, **more})
    yield cluster.address
    cluster.shutdown()


def steps(total: int, name: str) -> Any:
    return nullcontext(lambda what: None)


def test_tasks_are_spread_and_repeated(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    told: list[str] = []
    tasks = ["1", "die", "again", "part", "break", "2", "raise"]
    with connect(address) as module, team(module, None) as staff:
        assert staff.kinds == [""] and len(staff.hired) == CPUS
        start = cluster_tasks.start
        found = dict(spread.run(tasks, staff=staff, start=start, tell=told.append))
        late = spread.run(["1"], staff=staff, start=start, limit=0.0)
        assert not list(late)
        assert module.is_initialized()
    assert not module.is_initialized()
    assert capsys.readouterr().out == "", "Ray's messages are no results"
    values = [found[i] and found[i].value for i in range(len(tasks))]
    assert values[:4] == ["did 1", None, "did it again", "did the rest"]
    assert values[4].startswith("broke") and values[5] == "did 2"
    assert values[6] is None
    host = told[0].split()[3]
    ended = f"a worker on {host} ended at"
    failed = f"a worker on {host} failed (ValueError: no such task)"
    assert sorted(told) == [
        f"{ended} die",
        f"{ended} die; die has ended two and is left out",
        f"{ended} part, the part",
        f"{ended} part, the part; the part has ended two and is left out",
        f"{failed} at raise",
        f"{failed} at raise; raise has ended two and is left out",
    ]


def test_a_worker_that_hangs_or_cannot_start(address: str) -> None:
    told: list[str] = []
    with connect(address) as module, team(module, 1) as staff:
        found = dict(
            spread.run(
                ["hang"], staff=staff, start=pool_tasks.start, patience=0.5, tell=told.append
            )
        )
        assert found == {0: None} and len(told) == 2 and "took longer than 0 s at hang" in told[0]
        with pytest.raises(weft.Error, match="a worker of the cluster cannot start") as caught:
            list(spread.run(["1"], staff=staff, start=cluster_tasks.fail))
        assert "no such library" in caught.value.got
        for name in ("weft", "python"):
            other = {**staff.own, name: "0.0.9", "host": "elsewhere"}
            with pytest.raises(weft.Error, match=f"another version of {name}") as caught:
                staff.verify(other)
            assert caught.value.where == "node elsewhere" and caught.value.got == f"{name} 0.0.9"
            assert staff.own[name] in caught.value.allowed


def test_a_deadly_candidate_and_unequal_gpus(
    address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told: list[str] = []
    kept: dict[str, str] = {}
    monkeypatch.setattr(choose, "remember", lambda key, name: not kept.update({key: name}))
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    calls = tune.written("softmax", "3x300;2x100", "float32", {})
    job = cluster_tasks.DeadlyJob(1, "cpu", cluster_tasks.clock)
    options = ClusterOptions(address, tell=told.append)
    found = cluster_tune.tune("softmax", calls, job, cluster_tasks.about, options, steps)
    assert [one.call for one in found] == 2 * [str(call) for call in calls]
    for one in found:
        assert one.rows[0].name == "deadly" and one.rows[0].measured is None
        assert one.rows[0].failure == "left out: it has ended two workers"
        assert one.chosen == "long rows" and one.stored
    function = library.function("softmax")
    request = function.request(*function.bound([draw.seeded(1).normal(3, 300)], {}))
    assert kept[choose.key(request)] == "long rows" and len(kept) == 2
    assert told[0].startswith("the cluster has unequal GPUs (1 x Fake ")
    assert any("candidate 'deadly' has ended two and is left out" in text for text in told)
    assert not list(tmp_path.glob("cluster/*")), "a complete job leaves no journal"


def test_a_sweep_has_the_gpu_in_every_row(
    address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))
    record = tmp_path / "record.jsonl"
    case = next(case for case in CASES if case.name == "add")
    calls = tuple(run.calls(case, 1, 2, 500))
    batch = whole.Batch("add", 1, 500, calls)
    job = worker.SweepJob(None, "cpu", None, clock=pool_tasks.clock)
    options = ClusterOptions(address, workers=1)
    (one,) = bench.ops([batch], job, options, steps, record=record, about=cluster_tasks.same)
    assert one.gpu == "Fake" and not one.wrong and one.mean == pytest.approx(1.5)
    assert [r.call for r in one.results] == [str(call) for call in calls]
    (line,) = map(json.loads, record.read_text("utf-8").splitlines())
    assert line["gpu"] == "Fake" and len(line["results"]) == 2 and "weft" not in line


def test_the_verbs_on_cpus(address: str, tmp_path: Path) -> None:
    words = ["fuzz", "--seed", "3", "--programs", "4", "--workers", "1", "--json"]
    result = CliRunner().invoke(app, [*words, "--ray", address, "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert summary["programs"] == 4 and summary["workers"] == 1 and not summary["found"]
    only = "gpt2 layer_norm tokens=5"
    words = ["bench", "models", "--device", "sim", "--only", only, "--workers", "1", "--json"]
    result = CliRunner().invoke(app, [*words, "--ray", address])
    assert result.exit_code == 0, result.output
    (row,) = json.loads(result.stdout)["results"]
    assert row["right"] and row["errors"]["weft"] < 1e-2


def test_more_workers_than_gpus(address: str) -> None:
    words = ["tune", "softmax", "--shapes", "3x300", "--ray", address, "--workers", "3"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 1
    assert "the cluster has fewer GPUs than workers" in result.stderr
