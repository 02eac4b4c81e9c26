"""Judges random programs in worker processes, and writes those that go wrong to folders."""

from __future__ import annotations

import json
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from weft.cluster.pools import cpus
from weft.cluster.processes import Pool
from weft.errors import MissingDependency
from weft.fuzz import findings
from weft.fuzz.batch import MODULE, PACK
from weft.fuzz.execute import GXX
from weft.fuzz.judge import Batch, Judge, Reduction
from weft.progress import Notify
from weft.report.files import write
from weft.tasks.climb import Steps
from weft.values.fuzz import Fuzzed

PATIENCE = 1800.0
"""Seconds that a task may take: a reduction runs hundreds of programs."""
SHARE = 2
"""The least number of tasks for each worker, so that all of them end at about the same time."""


@dataclass(frozen=True)
class FuzzOptions:
    """Random programs to judge.

    programs  how many; they are judged in packs
    seed      of the programs; None: a new one
    first     the number of the first program
    minutes   after which no program is begun
    minimise  the most findings that are made smaller
    out       the folder for findings
    workers   processes; by default one for each CPU
    ray       the address of a Ray cluster; "" for processes of this machine
    """

    programs: int = 480
    seed: int | None = None
    first: int = 0
    minutes: float = float("inf")
    minimise: int = 10
    out: Path = Path("weft-fuzz")
    workers: int | None = None
    ray: str = ""


def fuzz(
    options: FuzzOptions, steps: Steps, tell: Callable[[str], None] = lambda text: None
) -> Fuzzed:
    """Judge the programs; Ctrl-C ends the run, and the result has what was judged until then."""
    if shutil.which(GXX[0]) is None:
        raise MissingDependency(
            f"weft fuzz needs {GXX[0]}: it compiles the programs for the host",
            next="install it with the system's packages, e.g. apt-get install g++",
        )
    seed = secrets.randbelow(2**31) if options.seed is None else options.seed
    run = _Run(options, seed)
    begin = time.monotonic()
    temporary = tempfile.TemporaryDirectory(prefix="weft-fuzz-", ignore_cleanup_errors=True)
    with temporary as folder, cpus(options.ray, options.workers, tell) as (pool, workers):
        try:
            run.judge(pool, workers, Judge(Path(folder)), steps)
            run.reduce(pool, Judge(Path(folder)), steps)
        except KeyboardInterrupt:
            run.interrupted = True
    found = [record for _, record in sorted(run.found.items())]
    folders = tuple(str(written(options.out, record)) for record in found)
    seconds = time.monotonic() - begin
    return Fuzzed(
        seed, run.wanted, run.done, seconds, workers, tuple(found), folders, run.interrupted
    )


@dataclass
class _Run:
    """The state of a run: findings by the number of their program."""

    options: FuzzOptions
    seed: int
    done: int = 0
    found: dict[int, findings.Record] = field(default_factory=dict)
    interrupted: bool = False

    def __post_init__(self) -> None:
        first, end = self.options.first, self.options.first + self.options.programs
        self.first, self.end = first - first % PACK, end + -end % PACK
        self.wanted = self.end - self.first
        self.until = time.monotonic() + 60 * self.options.minutes

    def judge(self, pool: Pool, workers: int, judge: Judge, steps: Steps) -> None:
        """Judge all programs."""
        packs = -(-self.wanted // (PACK * SHARE * workers))
        size = min(MODULE, PACK * packs)
        starts = range(self.first, self.end, size)
        tasks = [Batch(self.seed, at, min(size, self.end - at)) for at in starts]
        with steps(len(tasks), f"seed {self.seed}") as notify:
            for number, found in self._answers(pool, tasks, judge, notify):
                task = tasks[number]
                self.done += task.count
                if found is None:
                    found = [findings.crash(self.seed, task.first, task.count)]
                self.found |= {each["program"]: each for each in found}

    def reduce(self, pool: Pool, judge: Judge, steps: Steps) -> None:
        """Replace findings by those with the smallest programs."""
        numbers = [n for n, each in sorted(self.found.items()) if "source" in each]
        tasks = [Reduction(self.seed, n) for n in numbers[: self.options.minimise]]
        with steps(len(tasks), "reducing") as notify:
            for _, found in self._answers(pool, tasks, judge, notify):
                self.found |= {each["program"]: each for each in found or []}

    def _answers(
        self, pool: Pool, tasks: list[Batch] | list[Reduction], judge: Judge, notify: Notify
    ) -> Iterator[tuple[int, list[findings.Record] | None]]:
        limit = max(0.0, self.until - time.monotonic())
        for number, answer in pool(tasks, start=judge.start, limit=limit, patience=PATIENCE):
            yield number, None if answer is None else answer.value
            notify(f"{self.done} programs, {len(self.found)} findings")


def written(out: Path, found: findings.Record) -> Path:
    """Write a finding to a folder of its own: its text, its programs, and all of it as JSON."""
    folder = out / f"seed-{found['seed']}-program-{found['program']}"
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "finding.txt", f"{findings.text(found)}\n{findings.command(found)}\n")
    write(folder / "finding.json", json.dumps(found, indent=1) + "\n")
    for name, key in (("program.cu", "source"), ("program.cpp", "host")):
        if key in found:
            write(folder / name, found[key])
    return folder
