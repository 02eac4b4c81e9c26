"""The helper that starts ranks: values in order, outputs of failures, no hang."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from ranks import outcomes, run_ranks  # noqa: E402  it needs torch

pytestmark = pytest.mark.skipif(
    not torch.distributed.is_available() or not torch.distributed.is_gloo_available(),
    reason="needs PyTorch with gloo",
)


def total(rank: int, world: int, more: int) -> tuple[int, float]:
    value = torch.tensor(float(rank + more))
    torch.distributed.all_reduce(value)
    return rank, float(value)


def second_fails(rank: int, world: int) -> None:
    if rank == 1:
        raise ValueError("the second one")


def test_values_are_in_the_order_of_ranks() -> None:
    assert run_ranks(total, 2, args=(10,)) == [(0, 21.0), (1, 21.0)]


def test_the_output_of_a_failing_rank_is_in_the_error() -> None:
    with pytest.raises(AssertionError, match=r"rank 1, exit code 1\n[^-]*the second one"):
        run_ranks(second_fails, 2)


def test_a_script_has_the_variables_of_torchrun(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import os\nprint(os.environ['RANK'], os.environ['WORLD_SIZE'])\n", "utf-8")
    assert run_ranks(script, 2) == ["0 2\n", "1 2\n"]


def test_a_rank_that_hangs_is_killed(tmp_path: Path) -> None:
    """It is alone: on a busy machine another one might not end within the limit either."""
    script = tmp_path / "script.py"
    script.write_text("import time\ntime.sleep(600)\n", "utf-8")
    assert [o.code for o in outcomes(script, 1, limit=1)] == [-9]
