"""Start the processes ("ranks") of one distributed program, and collect what they return.

`run_ranks(function, world, limit)` calls `function(rank, world, *args)` in `world` processes that
have a process group over gloo and a file. `function` is at the top level of an importable file.
`run_ranks("script.py", world, limit)` runs a script in each of them, with the variables that
torchrun sets. The output of a failing rank is in the error.
"""

from __future__ import annotations

import importlib
import os
import pickle
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import weft
from limits import PROCESS_SECONDS

Body = Callable[..., Any] | str | Path
TESTS = Path(__file__).resolve().parents[1]
GRACE = 20.0
"""Seconds for the other ranks to end after one has failed."""
PAUSE = 0.05


@dataclass(frozen=True)
class Outcome:
    """The end of one rank: its exit code, what it printed, and what its function returned."""

    rank: int
    code: int
    output: str
    value: Any = None


def run_ranks(
    body: Body, world: int, limit: float = PROCESS_SECONDS, args: Sequence[Any] = ()
) -> list[Any]:
    """Run all ranks; return their values, or their outputs if `body` is a script."""
    found = outcomes(body, world, limit, args)
    failed = [f"---- rank {o.rank}, exit code {o.code}\n{o.output}" for o in found if o.code]
    assert not failed, "\n".join(failed)
    return [o.value if callable(body) else o.output for o in found]


def outcomes(
    body: Body, world: int, limit: float = PROCESS_SECONDS, args: Sequence[Any] = ()
) -> list[Outcome]:
    """Run all ranks and wait for them, also if some fail; one that hangs is killed."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        port = str(_free_port())
        begun = [_start(body, rank, world, folder, port, args) for rank in range(world)]
        try:
            _wait(begun, limit)
        finally:
            for process in begun:
                process.kill()
                process.wait()
        return [_outcome(rank, begun[rank].returncode, folder) for rank in range(world)]


def _start(
    body: Body, rank: int, world: int, folder: Path, port: str, args: Sequence[Any]
) -> subprocess.Popen[bytes]:
    if callable(body):
        file = Path(sys.modules[body.__module__].__file__ or "")
        (folder / "args").write_bytes(pickle.dumps(tuple(args)))
        command = [__file__, file.stem, body.__qualname__, str(folder)]
        paths = [str(TESTS / "support"), str(TESTS), str(file.parent)]
    else:
        command, paths = [str(body), *map(str, args)], []
    paths.append(str(Path(weft.__file__).parents[1]))
    numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world}
    environment = {
        **os.environ,
        **{key: str(number) for key, number in numbers.items()},
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "PYTHONPATH": os.pathsep.join(paths),
        "OMP_NUM_THREADS": "1",
    }
    with (folder / f"output{rank}").open("wb") as output:
        return subprocess.Popen(
            [sys.executable, *command], env=environment, stdout=output, stderr=subprocess.STDOUT
        )


def _wait(begun: Sequence[subprocess.Popen[bytes]], limit: float) -> None:
    """Wait until all have ended, until the limit, or for some time after one has failed."""
    end = time.monotonic() + limit
    while any(p.poll() is None for p in begun) and time.monotonic() < end:
        if any(p.returncode for p in begun):
            end = min(end, time.monotonic() + GRACE)
        time.sleep(PAUSE)


def _outcome(rank: int, code: int, folder: Path) -> Outcome:
    output = (folder / f"output{rank}").read_text("utf-8", "replace")
    kept = folder / f"value{rank}"
    value = pickle.loads(kept.read_bytes()) if kept.is_file() else None
    return Outcome(rank, code, output, value)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _main(module: str, function: str, name: str) -> None:
    """Call the function in this process, which is one of the ranks."""
    import torch.distributed as dist

    rank, world, folder = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), Path(name)
    body = getattr(importlib.import_module(module), function)
    args = pickle.loads((folder / "args").read_bytes())
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder / 'store'}",
        rank=rank,
        world_size=world,
        timeout=timedelta(seconds=PROCESS_SECONDS),
    )
    value = body(rank, world, *args)
    (folder / f"value{rank}").write_bytes(pickle.dumps(value))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    _main(*sys.argv[1:4])
