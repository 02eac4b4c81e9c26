"""Clusters: what needs no running Ray. Addresses, journals, and what the verbs refuse."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import weft
from weft.cli import app
from weft.cluster.connect import connect
from weft.cluster.journal import Journal, journal, resumed
from weft.cluster.processes import Answer
from weft.cluster.team import _available

pytestmark = pytest.mark.sim


# ---- addresses ---------------------------------------------------------------------------------
def test_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    result = CliRunner().invoke(app, ["fuzz", "--ray", "local"])
    assert result.exit_code == 1 and "work on a cluster needs Ray" in result.stderr
    assert "[ray]'" in result.stderr


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("nonsense", "--ray cannot be read"),
        ("ray://head:10001", "--ray cannot be read"),
        ("127.0.0.1:port", "--ray cannot be read"),
        ("127.0.0.1:1", "no Ray cluster answers at this address"),
        ("127.0.0.1:99999", "no Ray cluster answers at this address"),
    ],
)
def test_addresses_that_are_refused(address: str, words: str) -> None:
    pytest.importorskip("ray", reason="Ray has no wheel for this machine")
    result = CliRunner().invoke(app, ["fuzz", "--ray", address])
    assert result.exit_code == 1 and words in result.stderr
    assert "HOST:PORT of the head node" in result.stderr


def test_a_silent_address_is_refused_in_time() -> None:
    pytest.importorskip("ray", reason="Ray has no wheel for this machine")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(weft.Error, match="no answer in 1 s"), connect(address, limit=1.0):
            raise AssertionError("it must not connect")


def test_another_server_is_refused() -> None:
    pytest.importorskip("ray", reason="Ray has no wheel for this machine")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            client, _ = server.accept()
            with client:
                client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(weft.Error, match="an answer that is not Ray's"), connect(address):
            raise AssertionError("it must not connect")
        thread.join()


class Nodes:
    """The part of Ray that lists nodes."""

    def __init__(self, *resources: dict[str, float], alive: bool = True) -> None:
        self._resources, self._alive = resources, alive

    def nodes(self) -> list[dict[str, Any]]:
        names = ("left", "right")
        pairs = zip(names, self._resources, strict=False)
        return [{"Alive": self._alive, "NodeManagerHostname": n, "Resources": r} for n, r in pairs]


def test_a_cluster_without_gpus() -> None:
    assert _available(Nodes({"GPU": 2.0}, {"CPU": 4.0, "GPU": 1.0}), "GPU") == 3
    with pytest.raises(weft.MissingDependency, match="no node of the cluster has a GPU") as caught:
        _available(Nodes({"CPU": 8.0}, {"CPU": 4.0}), "GPU")
    assert caught.value.got == "2 nodes: left, right"
    with pytest.raises(weft.MissingDependency):
        _available(Nodes({"GPU": 2.0}, alive=False), "GPU")


# ---- verbs -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tune", "softmax", "--list", "--ray", "local"], "--list measures nothing"),
        (["tune", "softmax", "--device", "sim", "--ray", "local"], "the simulated GPU has none"),
        (["tune", "softmax", "--workers", "2"], "--workers needs a cluster"),
        (["bench", "ops", "--workers", "2"], "--workers needs a cluster"),
        (["bench", "ops", "--host", "--ray", "local"], "the host's times are those of one machine"),
        (["bench", "models", "--workers", "2"], "--workers needs a cluster"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_that_do_not_fit(words: list[str], said: str) -> None:
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 1 and said in result.stderr


# ---- journals ----------------------------------------------------------------------------------
@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))


TASKS, KINDS = ["a", "b", "a", "c"], ["H200", "H200", "A100", "A100"]


def sweep(told: list[str], fails: str = "", stops: int = 9) -> tuple[list[str], dict[int, Any]]:
    """The tasks that the pool was given, and the answers."""
    given: list[str] = []
    found: dict[int, Any] = {}

    def pool(tasks: Sequence[str], kinds: Sequence[str]) -> Iterator[tuple[int, Answer | None]]:
        for number, (task, kind) in enumerate(zip(tasks, kinds, strict=True)):
            given.append(f"{task} {kind}")
            yield number, None if task == fails else Answer((task, kind))

    with journal("test", ["1"], told.append) as known:
        settings = {"known": known, "pool": pool, "kinds": KINDS, "dump": list, "load": tuple}
        for number, answer in resumed(TASKS, **settings):
            found[number] = answer and answer.value
            if len(found) == stops:
                raise KeyboardInterrupt
    return given, found


def test_an_interrupted_job_goes_on(tmp_path: Path) -> None:
    told: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        sweep(told, stops=2)
    assert told == ["2 results are kept: the same command goes on from them"]
    (path,) = tmp_path.glob("cluster/*.jsonl")
    path.write_text(path.read_text("utf-8") + '{"task": "a", "gp', "utf-8")  # killed while writing
    told.clear()
    given, found = sweep(told)
    assert told == ["2 results are taken from the run that was interrupted"]
    assert given == ["a A100", "c A100"]
    assert found == dict(enumerate(zip(TASKS, KINDS, strict=True)))
    assert not path.exists()


def test_a_task_that_is_left_out_is_tried_again(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        sweep([], fails="b", stops=3)
    given, found = sweep([])
    assert given == ["b H200", "c A100"] and found[1] == ("b", "H200")


def test_jobs_have_journals_of_their_own(tmp_path: Path) -> None:
    with journal("test", ["1"], print) as one, journal("test", ["2"], print) as other:
        assert one.path != other.path
    assert Journal(tmp_path / "none").known == {}
