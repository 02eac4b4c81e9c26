"""PyTorch scripts of several processes under `weft run`: tutorials' kinds of parallelism.

Each script compares its ranks with one process. A row runs several, after one import of torch.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import weft
from folders import SUPPORT
from limits import PROCESS_SECONDS

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([str(Path(weft.__file__).parents[1]), str(SUPPORT)]),
    "NO_COLOR": "1",
    "OMP_NUM_THREADS": "1",  # as torchrun sets it
}

ROWS = {
    "collectives": ("collectives.py:3", "wrong_calls.py:2", "absent_rank.py:2", "dead_rank.py:2"),
    "data parallel": ("ddp.py:2", "ddp.py:1", "fsdp1.py:2", "fsdp2.py:2"),
    "layers over ranks": ("tensor_parallel.py:4", "pipeline.py:2"),
}
ENDED = {"dead_rank.py:2": "1 7"}
"""Exit codes other than 0 of all ranks."""


@pytest.mark.parametrize("scripts", ROWS.values(), ids=ROWS.keys())
def test_scripts_of_several_ranks(scripts: tuple[str, ...], tmp_path: Path) -> None:
    ranks = Path(__file__).with_name("script_ranks.py")
    command = ["-m", "weft", "run", "--gpus", "4", str(ranks), str(tmp_path), *scripts]
    done = subprocess.run(
        [sys.executable, *command], env=ENVIRONMENT, text=True, capture_output=True,
        timeout=PROCESS_SECONDS,
    )  # fmt: skip
    expected = [f"{s} {ENDED.get(s) or ' '.join('0' * int(s[-1]))}" for s in scripts]
    logs = {str(p.relative_to(tmp_path)): p.read_text()[-3000:] for p in tmp_path.rglob("output*")}
    assert done.stdout.splitlines() == expected, (logs, done.stderr)
    if "dead_rank.py:2" in scripts:
        text = logs["dead_rank.py:2/output0"]
        assert "all_reduce(sum, float32 [1]) failed on rank 0: " in text
        assert "got: rank 1: last called collective 1, all_reduce(sum, float32 [1])" in text


def test_more_processes_than_gpus(tmp_path: Path) -> None:
    """torchrun's second process asks for a GPU that is not there."""
    script = tmp_path / "script.py"
    script.write_text("import os, torch\ntorch.cuda.set_device(int(os.environ['LOCAL_RANK']))\n")
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "weft", "run", *torchrun, str(script)], env=ENVIRONMENT,
        text=True, capture_output=True, timeout=PROCESS_SECONDS,
    )  # fmt: skip
    assert done.returncode == 1
    for part in ("CUDA error: invalid device ordinal", "got: cuda:1", "`weft run --gpus 2`"):
        assert part in done.stderr, done.stderr


def test_a_transfer_ends_when_nothing_else_has_its_tensors() -> None:
    """Gloo's threads say that they are done before they let go of tensors."""
    import torch
    from torch._C import _distributed_c10d as c10d

    from weft.frontends.pytorch.distributed.transport import transfer

    let_go = threading.Event()

    def begin(tensors: list[torch.Tensor], factor: int) -> c10d.Work:
        done: torch.futures.Future[list[torch.Tensor]] = torch.futures.Future()

        def gloo() -> None:
            (tensor,) = tensors
            tensor *= factor
            done.set_result([])
            time.sleep(0.2)
            let_go.set()

        threading.Thread(target=gloo).start()
        return c10d._create_work_from_future(done)

    ones = torch.ones(2)
    transfer(begin, [ones], 3)
    assert let_go.is_set() and ones.tolist() == [3, 3]
    with pytest.raises(RuntimeError, match="no such rank"):
        transfer(raises(RuntimeError("no such rank")), ones)


def raises(error: Exception) -> Callable[[object], None]:
    """A function that raises an error."""

    def function(_: object) -> None:
        raise error

    return function
