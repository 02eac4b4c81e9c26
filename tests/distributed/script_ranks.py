"""Run scripts on several ranks, as `torchrun` does, in processes that share one import of torch.

`weft run --gpus 4 script_ranks.py FOLDER SCRIPT:WORLD...`: a line per script has the exit codes of
its ranks.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import runpy
import sys
import time
import traceback
from pathlib import Path

import torch.distributed.checkpoint
import torch.distributed.device_mesh
import torch.distributed.fsdp
import torch.distributed.pipelining
import torch.distributed.tensor.parallel

SCRIPTS = Path(__file__).with_name("scripts")
LIMIT = 200
"""Seconds for one script: a rank that hangs must not hang the test."""


def rank_of(script: str, rank: int, world: int, folder: Path) -> None:
    """Run a script as one rank, with the variables of torchrun."""
    sys.stdout = sys.stderr = open(folder / f"rank{rank}.txt", "w", buffering=1, encoding="utf-8")  # noqa: SIM115
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world)
    )
    faulthandler.enable()
    os.chdir(folder)
    sys.argv = [script]
    try:
        runpy.run_path(str(SCRIPTS / script), run_name="__main__")
    except BaseException:
        traceback.print_exc(file=sys.stderr)
        os._exit(1)
    sys.stderr.flush()
    os._exit(0)  # nothing of the parent is to be finished here


def run(script: str, world: int, folder: Path) -> list[int | None]:
    """Exit codes of all ranks; None for one that did not end."""
    folder.mkdir(parents=True)
    # As torchrun does: the parent has the store at which the ranks meet.
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    os.environ.update(
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(store.port), TORCHELASTIC_USE_AGENT_STORE="True"
    )
    fork = multiprocessing.get_context("fork")
    ranks = [fork.Process(target=rank_of, args=(script, r, world, folder)) for r in range(world)]
    for process in ranks:
        process.start()
    end = time.monotonic() + LIMIT
    for process in ranks:
        process.join(max(0, end - time.monotonic()))
    codes = [process.exitcode for process in ranks]
    for process in ranks:
        process.kill()
    return codes


def main() -> None:
    folder = Path(sys.argv[1]).absolute()
    for text in sys.argv[2:]:
        script, _, world = text.partition(":")
        print(text, *run(script, int(world), folder / text), flush=True)


if __name__ == "__main__":
    main()
