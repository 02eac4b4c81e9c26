"""The example of a pipeline: its schedule, and the losses of one process."""

from __future__ import annotations

import re
import sys

import pytest

from folders import ROOT

torch = pytest.importorskip("torch")
from ranks import run_ranks  # noqa: E402  it needs torch

EXAMPLE = ROOT / "examples" / "pipeline.py"
sys.path.insert(0, str(EXAMPLE.parent))
import pipeline  # noqa: E402

sys.path.pop(0)

pytestmark = pytest.mark.skipif(
    not torch.distributed.is_available() or not torch.distributed.is_gloo_available(),
    reason="needs PyTorch with gloo",
)


def test_the_order_of_passes() -> None:
    first = [f"{kind[0]}{part}" for kind, part in pipeline.schedule(0, 2, 3)]
    second = [f"{kind[0]}{part}" for kind, part in pipeline.schedule(1, 2, 3)]
    assert first == ["f0", "f1", "b0", "f2", "b1", "b2"]
    assert second == ["f0", "b0", "f1", "b1", "f2", "b2"]


@pytest.mark.parametrize(("stages", "parts"), [(1, 4), (2, 1), (4, 2), (3, 8)])
def test_every_part_is_computed_once_and_forward_first(stages: int, parts: int) -> None:
    for stage in range(stages):
        order = list(pipeline.schedule(stage, stages, parts))
        assert len(order) == 2 * parts == len(set(order))
        for part in range(parts):
            assert order.index(("forward", part)) < order.index(("backward", part))


def test_two_stages_train_as_one() -> None:
    first, second = run_ranks(EXAMPLE, 2)
    losses, most = pipeline.train(0, 1)
    assert most == 1 and losses[-1] < losses[0]
    found = [float(text) for text in re.findall(r"\d\.\d{4}", second)]
    assert found == pytest.approx(losses, abs=2e-4)
    assert "stage 0: at most 2 parts were kept" in first
    assert "stage 1: at most 1 parts were kept" in second
