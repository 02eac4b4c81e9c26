"""`weft train gpt` in several processes: the losses of one, checkpoints, a process that dies."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from limits import PROCESS_SECONDS
from weft.cli import app
from weft.errors import ArgumentError

torch = pytest.importorskip("torch")
import gpt_ranks  # noqa: E402  these need torch

from ranks import outcomes, run_ranks  # noqa: E402
from weft.distributed.parallel.buckets import GradientBuckets  # noqa: E402
from weft.train.gpt import checkpoint, tokens  # noqa: E402
from weft.train.gpt.settings import TextSettings  # noqa: E402
from weft.train.parallel import TrainingGroup  # noqa: E402

pytestmark = pytest.mark.skipif(
    not torch.distributed.is_available() or not torch.distributed.is_gloo_available(),
    reason="needs PyTorch with gloo",
)
CLOSE = {"rel": 1e-4, "abs": 1e-5}


@pytest.mark.parametrize("world", [2, 3])
def test_ranks_train_as_one_process_with_the_whole_batch(world: int, tmp_path: Path) -> None:
    """Also with small buckets, in parts, and from a checkpoint of one process."""
    half = gpt_ranks.training(gpt_ranks.SETTINGS, TrainingGroup())

    def save() -> None:
        checkpoint.save(half, gpt_ranks.PROSE, tokens.Tokens(), tmp_path / "half.pt")

    one = half.run(save=save, every=2)
    for found in run_ranks(gpt_ranks.trained, world, args=(str(tmp_path),)):
        assert len(found) == 4
        for losses, validation in found.values():
            assert losses == pytest.approx(one.losses, **CLOSE)
            assert validation == pytest.approx(one.validation, **CLOSE)
    last = gpt_ranks.training(gpt_ranks.SETTINGS, TrainingGroup())
    checkpoint.load(last, gpt_ranks.PROSE, tokens.Tokens(), tmp_path / f"whole{world}.pt")
    for ours, theirs in zip(last.model.parameters(), half.model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


def test_buckets_of_gradients() -> None:
    """Sums over ranks; the first bucket is sent while the backward pass still runs."""
    first, second = run_ranks(gpt_ranks.sums, 2)
    # d/dfirst = 2 * sum(second) * (rank + 1), and d/dsecond = 2 * sum(first) * (rank + 1)
    assert first["grads"] == second["grads"] == [[4 + 16.0] * 3, [6 + 24.0] * 2, [0.0] * 4]
    assert first["count"] == 3 and first["broadcast"] == second["broadcast"] == [
        [1.0] * n for n in (3, 2, 4)
    ]
    for rank, found in enumerate((first, second)):
        assert found["sent"] == [1]
        assert f"rank {rank}: ranks have different parameters" in found["error"]
        assert "got: rank 1: (3,) float32" in found["error"]


def test_a_rank_that_dies_is_named() -> None:
    found = outcomes(gpt_ranks.dies, 3)
    assert [o.code for o in found] == [3, 3, 9], "\n".join(o.output for o in found)
    assert "said: rank 2 ended while rank 0 was waiting for all" in found[0].output
    assert "said: rank 2 ended while rank 1 was waiting for all" in found[1].output


@pytest.mark.sim
def test_command_in_two_processes(tmp_path: Path) -> None:
    """On weft's kernels; the first process prints, and saves what one process goes on with."""
    options = ["--device", "sim", "--size", "1x16", "--length", "8", "--batch", "4", "--json",
               "--sample", "0", "--checkpoint", str(tmp_path / "g.pt")]  # fmt: skip
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    more = ["--steps", "3", "--accumulate", "2", "--bucket", "0.01"]
    done = subprocess.run(
        [*run, "-m", "weft", "train", "gpt", *options, *more],
        capture_output=True, text=True, timeout=PROCESS_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (both,) = json.loads(done.stdout)["trainings"]
    again = CliRunner().invoke(app, ["train", "gpt", *options, "--steps", "4", "--resume"])
    assert again.exit_code == 0, again.output
    (resumed,) = json.loads(again.stdout)["trainings"]
    whole = CliRunner().invoke(app, ["train", "gpt", *options, "--steps", "3"])
    (one,) = json.loads(whole.stdout)["trainings"]
    assert both["losses"] == pytest.approx(one["losses"], **CLOSE)
    assert resumed["losses"][:3] == both["losses"] and len(resumed["losses"]) == 4


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: TrainingGroup(0, 3).part(8), "got: 8 for 3 processes with 1 parts each"),
        (lambda: TrainingGroup(0, 2).part(6, 2), "allowed: a multiple of 4"),
        (lambda: TextSettings(accumulate=0), "a step has at least one part"),
        (lambda: TextSettings(bucket=0.0), "the bucket must be positive"),
        (lambda: GradientBuckets([], megabytes=-1.0), "a bucket of gradients has a positive size"),
    ],
)
def test_refusals(call: Any, said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        call()


def test_buckets_of_one_process_change_nothing() -> None:
    p = torch.nn.Parameter(torch.ones(2))
    buckets = GradientBuckets([p])
    with buckets.reducing():
        (p * 3).sum().backward()
    buckets.broadcast()
    assert p.grad.tolist() == [3.0, 3.0]
