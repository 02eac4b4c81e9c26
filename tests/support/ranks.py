"""Start the processes ("ranks") of one distributed program, and collect what they return.

`run_ranks(function, world, limit)` calls `function(rank, world, *args)` in `world` processes that
have a process group over gloo and a file. `function` is at the top level of an importable file.
`run_ranks("script.py", world, limit)` runs a script in each of them, with the variables that
torchrun sets. The output of a failing rank is in the error. A process that starts ranks several
times calls `forked(body, world, folder)`: they have what it has imported and compiled.
"""

from __future__ import annotations

import importlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import weft
from limits import PROCESS_SECONDS

Body = Callable[..., Any] | str | Path
TESTS = Path(__file__).resolve().parents[1]
GRACE = 60.0
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
    values = values_of(found)
    return values if callable(body) else [o.output for o in found]


def values_of(found: Sequence[Outcome]) -> list[Any]:
    """The values that the ranks have returned; fails if a rank has."""
    failed = [f"---- rank {o.rank}, exit code {o.code}\n{o.output}" for o in found if o.code]
    assert not failed, "\n".join(failed)
    return [o.value for o in found]


def outcomes(
    body: Body, world: int, limit: float = PROCESS_SECONDS, args: Sequence[Any] = ()
) -> list[Outcome]:
    """Run all ranks and wait for them, also if some fail; one that hangs is killed."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if callable(body):
            (folder / "args").write_bytes(pickle.dumps(tuple(args)))
            file = Path(sys.modules[body.__module__].__file__ or "")
            task = [file.stem, body.__qualname__]
            paths = [str(TESTS / "support"), str(TESTS), str(file.parent)]
        else:
            task, paths = [str(body), *map(str, args)], []
        paths.append(str(Path(weft.__file__).parents[1]))
        kind = "function" if callable(body) else "script"
        environment = {
            **os.environ,
            "WORLD_SIZE": str(world),
            "LOCAL_WORLD_SIZE": str(world),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(_free_port()),
            "PYTHONPATH": os.pathsep.join(paths),
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, __file__, kind, str(limit), name, *task]
        subprocess.run(command, env=environment, check=True)
        return [_outcome(rank, folder) for rank in range(world)]


def _outcome(rank: int, folder: Path) -> Outcome:
    output = (folder / f"output{rank}").read_text("utf-8", "replace")
    kept = folder / f"value{rank}"
    value = pickle.loads(kept.read_bytes()) if kept.is_file() else None
    return Outcome(rank, int((folder / f"code{rank}").read_text("utf-8")), output, value)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


# ---- the process that starts the ranks ---------------------------------------------------------
def forked(
    body: Callable[[int], Any],
    world: int,
    folder: Path,
    limit: float = PROCESS_SECONDS,
    grace: float = GRACE,
) -> list[Outcome]:
    """Call `body(rank)` in forks of this process, and wait for them; one that hangs is killed.

    folder  of this call alone, for the ranks' outputs and values
    grace   seconds for the other ranks to end after one has failed
    """
    running = {_fork(rank, world, folder, body): rank for rank in range(world)}
    end, codes = time.monotonic() + limit, dict[int, int]()
    while len(codes) < world:
        for pid in [p for p, rank in running.items() if rank not in codes]:
            if time.monotonic() > end:
                os.kill(pid, signal.SIGKILL)
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                codes[running[pid]] = os.waitstatus_to_exitcode(status)
        if any(codes.values()):
            end = min(end, time.monotonic() + grace)
        time.sleep(PAUSE)
    for rank, code in codes.items():
        (folder / f"code{rank}").write_text(str(code), "utf-8")
    return [_outcome(rank, folder) for rank in range(world)]


def _fork(rank: int, world: int, folder: Path, body: Callable[[int], Any]) -> int:
    """Start a rank; return its process."""
    sys.stdout.flush()
    if pid := os.fork():
        return pid
    os.environ["RANK"] = os.environ["LOCAL_RANK"] = str(rank)
    os.environ["WORLD_SIZE"] = os.environ["LOCAL_WORLD_SIZE"] = str(world)
    with (folder / f"output{rank}").open("wb") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    code = 1
    try:
        (folder / f"value{rank}").write_bytes(pickle.dumps(body(rank)))
        code = 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # a fork has no business in its parent's exit handlers


def join(rank: int, world: int, store: Path) -> None:
    """Make the process group of all ranks, over gloo and a file that is not there yet."""
    import torch.distributed as dist

    limit = timedelta(seconds=PROCESS_SECONDS)
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=world, timeout=limit
    )


def leave() -> None:
    """End the process group, after all ranks."""
    import torch.distributed as dist

    dist.barrier()
    dist.destroy_process_group()


def _main(kind: str, limit: str, name: str, *task: str) -> None:
    """Start the ranks and wait; those of a function are forks, so that all import torch once."""
    world, folder = int(os.environ["WORLD_SIZE"]), Path(name)
    if kind == "script":
        forked(lambda rank: os.execv(sys.executable, [sys.executable, *task]), world, folder,
               float(limit))  # fmt: skip
        return
    function = getattr(importlib.import_module(task[0]), task[1])
    args = pickle.loads((folder / "args").read_bytes())

    def body(rank: int) -> Any:
        join(rank, world, folder / "store")
        value = function(rank, world, *args)
        leave()
        return value

    forked(body, world, folder, float(limit))


if __name__ == "__main__":
    _main(*sys.argv[1:])
