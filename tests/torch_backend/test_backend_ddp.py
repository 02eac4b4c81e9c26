"""The backend "weft" with DistributedDataParallel: gradients equal those of eager PyTorch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import weft
from limits import PROCESS_SECONDS

torch = pytest.importorskip("torch")
import ddp  # noqa: E402  it needs torch

pytestmark = pytest.mark.skipif(
    not torch.distributed.is_available() or not torch.distributed.is_gloo_available(),
    reason="needs PyTorch with gloo",
)


def test_gradients_of_two_processes(tmp_path: Path) -> None:
    """Compiled inside, and outside with several buckets of gradients."""
    source = Path(weft.__file__).parents[1]
    other = subprocess.Popen(
        [sys.executable, ddp.__file__, str(tmp_path / "store")],
        env={**os.environ, "PYTHONPATH": str(source)},
    )
    try:
        graphs = ddp.compare(0, str(tmp_path / "store"))
        assert other.wait(PROCESS_SECONDS) == 0
    finally:
        other.kill()
        other.wait()
    assert graphs == {"inside": 1, "outside, in buckets": 2}
