"""`weft tune`: which candidate is stored, and what the command says with and without a GPU."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner, Result

import draw
import weft
from weft.cli import app
from weft.ops.core import choose, library
from weft.ops.core.choose import Candidate, Choice
from weft.ops.sweep import tune
from weft.pytest_plugin import no_gpu
from weft.values.sweep import CandidateTime

SHAPES = "3x300"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["tune", *arguments])


def call(op: str = "softmax", shapes: str = SHAPES, **options: Any) -> Any:
    (found,) = tune.written(op, shapes, "float32", options)
    return found


@pytest.fixture
def winners(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The cache of winners in memory; compiled kernels stay in the usual one."""
    kept: dict[str, bytes] = {}
    get, put = choose.cache.get, choose.cache.put
    monkeypatch.setattr(
        choose.cache, "get", lambda kind, key: kept.get(key) if kind == "tuned" else get(kind, key)
    )

    def store(kind: str, key: str, data: bytes) -> bool:
        if kind != "tuned":
            return put(kind, key, data)
        kept[key] = data
        return True

    monkeypatch.setattr(choose.cache, "put", store)
    yield kept
    library.function("softmax").forget()


def chosen(x: Any) -> Choice:
    function = library.function("softmax")
    return function.choice(function.request(*function.bound([x], {})))


@pytest.mark.sim
def test_the_fastest_is_stored_and_used(winners: dict[str, bytes]) -> None:
    x, timed = draw.seeded(1).normal(3, 300), []

    def clock(contenders: Sequence[Any]) -> list[float]:
        timed.extend(f() for f in contenders)  # each computes the op
        return [5e-6, 2e-6]

    before = chosen(x)
    found = tune.tune(call(), "cpu", clock)
    assert [row.measured for row in found.rows] == [5e-6, 2e-6] and found.stored
    assert (found.before, found.chosen, found.gain) == ("rows", "long rows", pytest.approx(2.5))
    assert len(timed) == 2
    torch.testing.assert_close(*timed)
    after = chosen(x)
    assert not before.measured and before.used.name == "rows"
    assert after.measured and after.used.name == "long rows" and len(winners) == 1
    assert not chosen(draw.seeded(1).normal(3, 301)).measured
    assert "measured by `weft tune`" in str(weft.ops.explain(weft.ops.softmax, x))
    torch.testing.assert_close(weft.ops.softmax(x), x.softmax(-1))
    again = tune.tune(call(), "cpu", lambda contenders: [3e-6, 3.01e-6])
    assert (again.before, again.chosen) == ("long rows", "long rows")


@pytest.mark.sim
def test_a_candidate_that_fails_is_not_chosen(
    winners: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> Any:
        raise weft.LaunchError("too much shared memory")

    first = Candidate("broken", 0.0, "", broken)
    function = library.function("softmax")
    offered = function.definition.candidates
    definition = type(function.definition)(
        **{**vars(function.definition), "candidates": lambda r: [first, *offered(r)]}
    )
    monkeypatch.setattr(function, "definition", definition)
    found = tune.tune(call(), "cpu", lambda contenders: [2e-6, 1e-6][: len(contenders)])
    assert found.rows[0].failure == "too much shared memory" and found.rows[0].measured is None
    assert found.chosen == "long rows" and found.gain == 1


def row(name: str, measured: float | None) -> CandidateTime:
    return CandidateTime(name, "", 0.0, measured, "" if measured else "failed")


@pytest.mark.parametrize(
    ("measured", "want"),
    [
        pytest.param([2.0, 1.0, 3.0], "b", id="the fastest"),
        pytest.param([2.0, 1.95, 2.1], "a", id="less than the margin is noise"),
        pytest.param([None, 2.0, 1.99], "c", id="the one in use failed"),
        pytest.param([1.0], "a", id="only one"),
    ],
)
def test_the_decision(measured: list[float | None], want: str) -> None:
    rows = [row(name, time) for name, time in zip("abc", measured, strict=False)]
    assert tune.decide(rows) == want


def test_no_candidate_works() -> None:
    with pytest.raises(weft.ArgumentError, match="no candidate could be measured"):
        tune.decide([row("a", None)])


def test_a_request_is_the_same_however_options_are_spelled() -> None:
    x = torch.empty(4, 64)
    total, norm = library.function("sum"), library.function("norm")
    assert len({total.request(x, dim, False).key() for dim in (1, [1], (1,))}) == 1
    assert len({norm.request(x, None, False, order).key() for order in (2, 2.0)}) == 1


# ---- the command line --------------------------------------------------------------------------
def test_list_needs_no_gpu() -> None:
    result = run("matmul", "--list", "--shapes", "64x4096,4096x4096; 8x16,16x8")
    assert result.exit_code == 0, result.output
    assert "matmul float32 64x4096, float32 4096x4096 on" in result.stdout
    assert "K in" in result.stdout and "chosen" in result.stdout
    assert "measured" not in result.stdout
    found = json.loads(
        run("sum", "--list", "--shapes", "8x4096", "--set", "dim=1", "--json").stdout
    )
    assert found[0]["call"] == "float32 8x4096 dim=1" and not found[0]["stored"]
    assert found[0]["candidates"][0]["modelled_seconds"] > 0
    drawn = [json.loads(run("sum", "--list", "--json", "--calls", "3").stdout) for _ in range(2)]
    assert len(drawn[0]) == 3 and drawn[0] == drawn[1]


@pytest.mark.skipif(not no_gpu(), reason="there is a GPU")
def test_without_a_gpu() -> None:
    result = run("softmax")
    assert result.exit_code == 1
    assert "weft tune measures on a GPU, and there is none to use here" in result.stderr
    assert "weft tune softmax --list" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sofmax"], "weft.ops has no such op"),
        (["attention_varlen"], "the sweep draws no calls of this op"),
        (["axpy"], "the sweep draws no calls of this op"),
        (["softmax", "--shapes", "4xy"], "cannot be read"),
        (["matmul", "--shapes", "4x4"], "takes another number of tensors"),
        (["softmax", "--shapes", "4x4", "--dtype", "floaty"], "no such dtype"),
        (["softmax", "--shapes", "4x4", "--set", "dims=1"], "has no such option"),
        (["softmax", "--shapes", "4x4", "--set", "dim"], "NAME=VALUE"),
        (["softmax", "--list", "--shapes", "4x4", "--set", "dim=5"], "got: dim 5 of 2 dimensions"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_messages(arguments: list[str], words: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 1 and words in result.stderr


@pytest.mark.gpu
def test_on_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    result = run("matmul", "--shapes", "64x512,512x256", "--json")
    assert result.exit_code == 0, result.output
    (found,) = json.loads(result.stdout)
    assert all(c["measured_seconds"] > 0 for c in found["candidates"]) and found["stored"]
    x, y = torch.randn(64, 512, device="cuda"), torch.randn(512, 256, device="cuda")
    assert weft.ops.explain(weft.ops.matmul, x, y).to_dict()["used"] == found["chosen"]
