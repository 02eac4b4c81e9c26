"""Random CUDA C++ on the simulator against g++, on many cores; minimises what differs.

    python tests/differential/run.py                               480 programs, a fresh seed
    python tests/differential/run.py --programs 20000 --jobs 16    a long run
    python tests/differential/run.py --seed 7 --first 301 --programs 1   one finding again

Needs g++ and weft's own requirements, no GPU. Prints every finding with its smallest program and
ends with code 1 if there is one. `--json FILE` writes the summary there.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import secrets
import shutil
import sys
import tempfile
import time
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "support"), str(TESTS.parent / "src")]

from differential import report  # noqa: E402
from differential.batch import MODULE, PACK, batch  # noqa: E402
from differential.execute import GXX  # noqa: E402
from differential.minimise import minimise  # noqa: E402

_LOG_EVERY = 30.0
_TASKS = 8
"""Tasks of a process before another takes its place: compiled code of either side stays loaded."""
_SPAWN = multiprocessing.get_context("spawn")
Task = tuple[int, int, int]
"""The first program, how many, and how many findings are to be minimised at most."""


def main() -> int:
    """Runs the programs; 1 if something was found."""
    options = _options().parse_args()
    if shutil.which(GXX[0]) is None:
        print(f"{GXX[0]} is needed: it compiles the programs for the host", file=sys.stderr)
        return 2
    run = Run(options.seed, options.first, options.programs, options.minimise)
    run.until(time.monotonic() + options.seconds, options.jobs)
    for _, found in sorted(run.findings.items()):
        print(report.text(found))
    summary = run.summary()
    if options.json:
        options.json.write_text(json.dumps(summary, indent=1) + "\n")
    print({key: value for key, value in summary.items() if key != "findings"})
    return 1 if run.findings else 0


def _options() -> argparse.ArgumentParser:
    about, _, rest = (__doc__ or "").partition("\n")
    kind = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=about, epilog=rest, formatter_class=kind)
    parser.add_argument("--programs", type=int, default=480, help=f"how many, by {PACK}")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31))
    parser.add_argument("--first", type=int, default=0, help="the number of the first program")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after these")
    parser.add_argument("--json", type=Path, help="write a summary with all findings")
    parser.add_argument("--minimise", type=int, default=10, help="findings to cut down")
    return parser


class Worker:
    """A process that runs one task after another; its files go to `folder`."""

    def __init__(self, seed: int, folder: str) -> None:
        self.seed, self.folder = seed, folder
        self.task: Task | None = None
        self.start()

    def start(self) -> None:
        self.pipe, other = _SPAWN.Pipe()
        args = (other, self.seed, self.folder)
        self.process = _SPAWN.Process(target=_serve, args=args, daemon=True)
        self.process.start()
        other.close()
        self.tasks = 0

    def end(self) -> None:
        self.process.terminate()
        self.process.join()
        self.pipe.close()

    def give(self, task: Task) -> None:
        if self.tasks == _TASKS:
            self.end()
            self.start()
        self.task = task
        self.tasks += 1
        self.pipe.send(task)


def _serve(pipe: Connection, seed: int, folder: str) -> None:
    """The loop of a worker: sends findings as they are, then cut down, then None."""
    os.environ["WEFT_THREADS"] = "1"  # the cores are taken by other workers
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    while True:
        try:
            first, count, smaller = pipe.recv()
        except EOFError:  # the parent has ended
            return
        findings = batch(seed, count, first)
        pipe.send((count, [report.record(f, f) for f in findings]))
        for finding in findings[:smaller]:
            pipe.send((0, [report.record(finding, minimise(finding))]))
        pipe.send(None)


class Run:
    """The programs of one seed, spread over processes."""

    def __init__(self, seed: int, first: int, count: int, smaller: int) -> None:
        self.seed, self.smaller = seed, smaller
        first, end = first - first % PACK, first + count + -(first + count) % PACK
        starts = range(first, end, MODULE)
        self.tasks = [(at, min(MODULE, end - at)) for at in reversed(starts)]
        self.wanted, self.done, self.start = end - first, 0, time.monotonic()
        self.findings: dict[int, report.Record] = {}
        """By the number of the program."""
        self._said = self.start

    def until(self, deadline: float, jobs: int) -> None:
        """Works until all is done or the time is up; what was begun then is left out."""
        with tempfile.TemporaryDirectory(prefix="weft-differential-") as folder:
            self._work(deadline, jobs, folder)  # workers may be ended before they remove files

    def _work(self, deadline: float, jobs: int, folder: str) -> None:
        workers = [Worker(self.seed, folder) for _ in range(min(jobs, len(self.tasks)))]
        for worker in workers:
            self._next(worker)
        while busy := {w.pipe: w for w in workers if w.task is not None}:
            left = deadline - time.monotonic()
            ready = wait(list(busy), timeout=min(5.0, max(0.0, left)))
            for pipe in ready:
                self._take(busy[pipe])
            self._progress()
            if left <= 0:
                break
        for worker in workers:
            worker.end()

    def _next(self, worker: Worker) -> None:
        worker.task = None
        if self.tasks:
            first, count = self.tasks.pop()
            worker.give((first, count, max(0, self.smaller - len(self.findings))))

    def _take(self, worker: Worker) -> None:
        """Takes what a worker sends. A worker that died is replaced, its task is a finding."""
        first, count, _ = worker.task or (0, 0, 0)
        try:
            message = worker.pipe.recv()
        except EOFError:
            worker.process.join()
            message = count, [report.crash(self.seed, first, count, worker.process.exitcode)]
            worker.end()
            worker.start()
            worker.task = None
        ran, found = message or (0, [])
        self.done += ran
        self.findings |= {each["program"]: each for each in found}
        if message is None or worker.task is None:
            self._next(worker)

    def _progress(self) -> None:
        """One line that changes in a terminal; in a log a line every half minute."""
        now, terminal = time.monotonic(), sys.stderr.isatty()
        if not terminal and now - self._said < _LOG_EVERY:
            return
        self._said = now
        line = f"{self.done} of {self.wanted} programs, {len(self.findings)} findings"
        end = "\r" if terminal else "\n"
        print(f"seed {self.seed}: {line}, {now - self.start:.0f} s", end=end, file=sys.stderr)

    def summary(self) -> dict[str, Any]:
        passed = time.monotonic() - self.start
        return {
            "seed": self.seed,
            "programs": self.done,
            "wanted": self.wanted,
            "seconds": round(passed, 1),
            "per_second": round(self.done / passed, 2),
            "findings": [found for _, found in sorted(self.findings.items())],
            "found": len(self.findings),
        }


if __name__ == "__main__":
    sys.exit(main())
