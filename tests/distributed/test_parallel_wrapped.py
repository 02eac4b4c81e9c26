"""weft's layers, compiler and optimisers under DDP and FSDP: they train as one process does."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("needs PyTorch with gloo", allow_module_level=True)
import wrapped_ranks  # noqa: E402  it needs torch

from ranks import run_ranks  # noqa: E402


def test_every_way_trains_as_one_process() -> None:
    done = [f"{w}, {o}" for w in wrapped_ranks.WAYS for o in wrapped_ranks.OPTIMISERS]
    assert run_ranks(wrapped_ranks.every_way, 2) == [done, done]


def test_gradients_that_are_divided_over_ranks() -> None:
    for found in run_ranks(wrapped_ranks.norms, 2):
        assert found["norm"] == pytest.approx(0.25, rel=1e-4)
        assert found["states"] == {"DTensor"}
        assert "no states of 8 bits" in found["8 bits"]
        assert "a gradient is not added up yet" in found["partial"]
