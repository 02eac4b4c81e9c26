"""Run scripts on several ranks, as `torchrun` does, in processes that share one import of torch.

`weft run --gpus 4 script_ranks.py FOLDER SCRIPT:WORLD...`: a line per script has the exit codes of
its ranks.
"""

from __future__ import annotations

import faulthandler
import os
import runpy
import sys
from pathlib import Path

import torch.distributed.checkpoint
import torch.distributed.device_mesh
import torch.distributed.fsdp
import torch.distributed.pipelining
import torch.distributed.tensor.parallel

from ranks import forked

SCRIPTS = Path(__file__).with_name("scripts")
LIMIT = 200
"""Seconds for one script: a rank that hangs must not hang the test."""


def run(script: str, world: int, folder: Path) -> list[int]:
    """Exit codes of all ranks; that of one that did not end is -9."""
    folder.mkdir(parents=True)
    # As torchrun does: the parent has the store at which the ranks meet.
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    os.environ.update(
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(store.port), TORCHELASTIC_USE_AGENT_STORE="True"
    )

    def body(rank: int) -> None:
        faulthandler.enable()
        os.chdir(folder)
        sys.argv = [script]
        runpy.run_path(str(SCRIPTS / script), run_name="__main__")

    # A rank may have to notice that another one has ended: it gets all the time that is left.
    return [outcome.code for outcome in forked(body, world, folder, LIMIT, grace=LIMIT)]


def main() -> None:
    folder = Path(sys.argv[1]).absolute()
    for text in sys.argv[2:]:
        script, _, world = text.partition(":")
        print(text, *run(script, int(world), folder / text), flush=True)


if __name__ == "__main__":
    main()
