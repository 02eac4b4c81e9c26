"""Judges predicted times by public programs, whose kernels ncu times on a GPU.

    python benchmarks/predict_public.py FOLDER --measure TIMES   # on a machine with a GPU and ncu
    python benchmarks/predict_public.py FOLDER --count           # anywhere: runs weft profile
    python benchmarks/predict_public.py FOLDER --join TIMES      # writes the record, prints errors
    python benchmarks/predict_public.py                          # prints the errors of the record

`FOLDER/programs.json` lists the programs: name (a folder beside it), repository, commit, path,
sources, flags of nvcc, arguments. Counts stay in a folder beside it, `FOLDER-counts`.

Kernels are joined by name, grid and block; where several instances of a template have the same, by
the order of their first launches. What a launch finds in L2 is there on both sides: ncu flushes
nothing between launches, and where all arrays of a program fit in L2, they are counted as kept.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from weft.device import models
from weft.measure.profile.prediction import judge
from weft.measure.profile.prediction.demand import demand, kept
from weft.measure.profile.result import Profile

RECORD = Path(__file__).parent / "records" / "predict_public.jsonl"
MODEL = models.get("h200")
ARCH = "sm_" + "".join(map(str, MODEL.compute_capability))
LAUNCHES = 60
"""The first launches of a program are timed."""
SECONDS = 15
"""A program may take so long under ncu."""
COUNTING = 90
"""And so long to count."""
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
"""Units of ncu, whose older releases write nsecond."""
Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Program:
    """An entry of programs.json, and the folder that it is in."""

    name: str
    repository: str
    commit: str
    path: str
    sources: list[str]
    flags: list[str]
    args: list[str]
    folder: Path

    @property
    def counts(self) -> Path:
        return (
            self.folder.parent.with_name(self.folder.parent.name + "-counts") / f"{self.name}.json"
        )


@dataclass(frozen=True)
class Timed:
    """The launches of a kernel with one grid and block: how many, and their median seconds."""

    kernel: str
    grid: Shape
    block: Shape
    launches: int
    seconds: float


def programs(folder: Path) -> list[Program]:
    """The programs of a folder."""
    fields = Program.__dataclass_fields__
    rows = json.loads((folder / "programs.json").read_text("utf-8"))
    return [
        Program(folder=folder / row["name"], **{k: v for k, v in row.items() if k in fields})
        for row in rows
    ]


# ---- on a GPU ------------------------------------------------------------------------------------
def measure(found: Sequence[Program], out: Path, limit: float) -> None:
    """Build all programs at the same time and time one after the other, for so many seconds."""
    end = time.monotonic() + limit
    with ThreadPoolExecutor(os.cpu_count()) as pool, out.open("w", encoding="utf-8") as file:
        building = [pool.submit(built, one, out.parent / f"{one.name}.out") for one in found]
        ready = [one.result() for one in building]  # nothing else runs while kernels are timed
        for program, (path, wrong) in zip(found, ready, strict=True):
            row: dict[str, Any] = {"name": program.name}
            if wrong:
                row["failed"] = wrong
            elif time.monotonic() > end:
                row["failed"] = "no time left"
            else:
                row |= timed_program(program, path)
            path.unlink(missing_ok=True)
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(row.get("failed") or f"{len(row['kernels'])} kernels", program.name, flush=True)


def built(program: Program, path: Path) -> tuple[Path, str]:
    """The file of a built program, and the reason why it cannot be built."""
    command = ["nvcc", "-O3", "-std=c++17", f"-arch={ARCH}"]
    command += [*program.flags, *program.sources, "-o", str(path.absolute())]
    done = subprocess.run(command, cwd=program.folder, capture_output=True, text=True)
    return path, f"nvcc: {done.stderr[-400:]}" if done.returncode else ""


def timed_program(program: Program, path: Path) -> dict[str, Any]:
    """The kernels of a program as ncu times them."""
    log = path.with_suffix(".csv").absolute()
    ncu = "ncu --clock-control none --cache-control none --metrics gpu__time_duration.sum --csv"
    options = ["--launch-count", str(LAUNCHES), "--kill", "yes", "--log-file", str(log)]
    command = [*ncu.split(), *options, str(path.absolute()), *program.args]
    status = ended(command, program.folder, SECONDS)
    text = log.read_text("utf-8", errors="replace") if log.is_file() else ""
    log.unlink(missing_ok=True)
    kernels = timed(text)
    if not kernels:
        return {"failed": f"{status}, ncu: {text[-400:]}"}
    return {"kernels": [asdict(one) for one in kernels], "ended": status}


def ended(command: Sequence[str], folder: Path, limit: float) -> str:
    """Run a command for so long; say how it ended. All processes that it started end with it."""
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(
        command, cwd=folder, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
    )
    try:
        return f"status {process.wait(limit)}"
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return f"ended after {limit} s"


def timed(text: str) -> list[Timed]:
    """The kernels of what ncu writes with --csv, in the order of their first launches."""
    lines = text.splitlines()
    start = next((n for n, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    table = [line for line in lines[start:] if line.startswith('"')]
    seconds = defaultdict[tuple[str, Shape, Shape], list[float]](list)
    for row in csv.DictReader(table):
        if row["Metric Name"] == "gpu__time_duration.sum":
            unit = UNITS[row["Metric Unit"].replace("econd", "")]
            key = row["Kernel Name"], shape(row["Grid Size"]), shape(row["Block Size"])
            seconds[key].append(float(row["Metric Value"].replace(",", "")) * unit)
    return [Timed(*key, len(few), statistics.median(few)) for key, few in seconds.items()]


def shape(text: str) -> Shape:
    """A grid or block such as "(32, 1, 1)"."""
    x, y, z = map(int, re.findall(r"\d+", text))
    return x, y, z


# ---- on the simulated GPU ------------------------------------------------------------------------
def count(found: Sequence[Program]) -> None:
    """Count the programs that have no counts yet."""
    for program in found:
        program.counts.parent.mkdir(exist_ok=True)
        if program.counts.is_file():
            continue
        begin = time.monotonic()
        command = [sys.executable, "-m", "weft", "profile", program.sources[0], "--json"]
        command += [word for source in program.sources[1:] for word in ("--with", source)]
        for flag in program.flags:
            command.append(flag if flag[:2] in ("-I", "-D") else f"--nvcc={flag}")
        command += ["--args", " ".join(program.args)] if program.args else []
        said = counted(command, program)
        print(f"{said or 'counted'} {time.monotonic() - begin:.0f} s {program.name}", flush=True)


def counted(command: Sequence[str], program: Program) -> str:
    """Run `weft profile` and keep its record; return what went wrong."""
    env = {**os.environ, "PYTHONPATH": str(Path(sys.modules["weft"].__path__[0]).parent)}
    with subprocess.Popen(
        command, cwd=program.folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:  # fmt: skip
        try:
            out, errors = process.communicate(timeout=COUNTING)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return f"not counted in {COUNTING} s"
    if process.returncode:
        return f"status {process.returncode}: {errors.decode(errors='replace')[-300:]}"
    program.counts.write_bytes(out)
    return ""


# ---- both ----------------------------------------------------------------------------------------
def join(found: Sequence[Program], times: Path) -> Iterator[dict[str, Any]]:
    """A row of the record for each kernel that is timed and counted."""
    measured = {row["name"]: row for row in map(json.loads, times.read_text("utf-8").splitlines())}
    for program in found:
        kernels = [
            Timed(k["kernel"], shape(str(k["grid"])), shape(str(k["block"])), *rest(k))
            for k in measured.get(program.name, {}).get("kernels", [])
        ]
        if not program.counts.is_file():
            print(f"not counted: {program.name}", file=sys.stderr)
            continue
        counts = list(Profile.load(program.counts))
        waiting = defaultdict[tuple[str, Shape, Shape], list[Timed]](list)
        for one in kernels:
            waiting[plain(one.kernel), one.grid, one.block].append(one)
        for profile in counts:
            launch = profile.launch
            few = waiting[plain(launch.kernel), launch.grid, launch.block]
            if few:
                yield row(program, profile, few.pop(0), kept(counts, MODEL))
            else:
                print(f"not timed: {program.name} {launch.kernel}", file=sys.stderr)


def rest(kernel: dict[str, Any]) -> tuple[int, float]:
    """The number of launches and the seconds."""
    return kernel["launches"], kernel["seconds"]


def plain(kernel: str) -> str:
    """The name of a kernel without its type, namespaces, template arguments and parameters."""
    name = kernel.removeprefix("void ").replace("(anonymous namespace)::", "").partition("(")[0]
    return name.partition("<")[0].rpartition("::")[2]


def row(program: Program, profile: Profile, one: Timed, left: float) -> dict[str, Any]:
    """The work of a launch for each unit, beside its time; L2 has this part of its bytes."""
    asked = demand(profile, MODEL, left)
    launch = {
        "kernel": profile.launch.kernel,
        "blocks": profile.launch.blocks,
        "units": {name: float(f"{s:.4g}") for name, s in asked.units.items()},
        "latency": float(f"{asked.latency:.4g}"),
        "wave": float(f"{asked.wave:.4g}"),
        "early": asked.early,
        "met": asked.chain.met,
        "code": float(f"{asked.code:.4g}"),
    }
    grid, block = (" x ".join(map(str, size)) for size in (one.grid, one.block))
    return {
        "ladder": program.name,
        "rung": profile.launch.kernel,
        "case": f"{' '.join(program.args)}: {grid} blocks of {block}",
        "repository": program.repository,
        "commit": program.commit,
        "path": program.path,
        "timed": one.launches,
        "measured": float(f"{one.seconds:.4g}"),
        "launches": [launch],
    }


def rows() -> list[dict[str, Any]]:
    """The rows of the record."""
    lines = RECORD.read_text("utf-8").splitlines() if RECORD.is_file() else []
    return [json.loads(line) for line in lines]


def main() -> None:
    """Measure, count or join; print the errors."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--measure", type=Path, metavar="TIMES")
    parser.add_argument("--limit", type=float, default=110, help="seconds of all runs under ncu")
    parser.add_argument("--count", action="store_true")
    parser.add_argument("--join", type=Path, metavar="TIMES")
    asked = parser.parse_args()
    found = programs(asked.folder.absolute()) if asked.folder else []
    if asked.measure:
        measure(found, asked.measure, asked.limit)
        return
    if asked.count:
        count(found)
    if asked.join:
        lines = [json.dumps(one) + "\n" for one in join(found, asked.join)]
        RECORD.write_text("".join(lines), encoding="utf-8")
    for one in rows():
        said = judge.predicted(one) / one["measured"]
        print(f"{said:6.2f} {one['measured'] * 1e6:9.2f} us {one['ladder']} {one['rung'][:60]}")
    if rows():
        print(judge.judge(rows()))


if __name__ == "__main__":
    main()
