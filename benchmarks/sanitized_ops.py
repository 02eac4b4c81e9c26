"""Runs random calls of every op on a GPU under the tools of NVIDIA's compute-sanitizer.

    PYTHONPATH=src python benchmarks/sanitized_ops.py --seconds 330

Calls are drawn as the sweep draws them, small, forward and backward. They are led to kernels that
the cost models would not choose for small tensors, so that all kernels of the library are launched.
First the calls are selected, which launches nothing; then they are made without a tool, which fills
the cache with compiled kernels; then under each tool, in several processes. Errors in kernels of
others, such as PyTorch's, are left out. One line for each tool is appended to
records/sanitized_ops.jsonl.

    PYTHONPATH=src python benchmarks/sanitized_ops.py --device cpu --ops softmax --seconds 60

makes the calls on the simulated GPU, without a tool and a record.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "sanitized"))

from steering import every_kernel, kernel_of  # noqa: E402

from weft.frontends.compute_sanitizer import TOOLS, find  # noqa: E402
from weft.frontends.compute_sanitizer_text import complete, findings  # noqa: E402

RECORDS = HERE / "records" / "sanitized_ops.jsonl"
WORKER = HERE / "sanitized" / "ops_calls.py"
PRINTED = "2000"
"""The most errors that a tool prints in one process; it counts all."""
SELECTING, WARMING = 0.25, 0.6
"""Shares of the time after which a selection, and the calls without a tool, have to be finished."""
NAMES = {kernel.partition(" ")[2] for kernel in every_kernel()}


class Processes:
    """Worker processes that run at once, each with a file for its answer."""

    def __init__(self, folder: Path, end: float) -> None:
        self.folder, self.end = folder, end
        self.started: list[tuple[subprocess.Popen[bytes], Path, Path]] = []

    def start(self, name: str, words: Sequence[str], before: Sequence[str] = ()) -> None:
        """Start a worker; `before` are the words of a tool that runs it."""
        out, log = self.folder / f"{name}.json", self.folder / f"{name}.txt"
        command = [*before, sys.executable, "-W", "ignore", str(WORKER), *words, "--out", str(out)]
        # Each tensor is an allocation of its own, whose ends and contents the tools know.
        env = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
        with log.open("wb") as file:
            process = subprocess.Popen(
                command, stdout=file, stderr=subprocess.STDOUT, env=env, process_group=0
            )
        self.started.append((process, out, log))

    def answers(self) -> list[Any]:
        """The results of the workers; kill a late worker, and print the log of a failed one."""
        found = []
        for process, out, log in self.started:
            try:
                process.wait(max(1.0, self.end - time.monotonic()))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # the tool and the program that it runs
                process.wait()
            if out.exists():
                found.append(json.loads(out.read_text(encoding="utf-8")))
            else:
                text = log.read_text(encoding="utf-8", errors="replace")
                print(f"{out.stem} has no answer (code {process.returncode}): {text[-600:]}")
        return found


def selected(given: argparse.Namespace, folder: Path, end: float) -> list[dict[str, Any]]:
    """The calls to be made; those that reach a kernel first come first."""
    workers = Processes(folder, end)
    for n in range(given.jobs):
        words = ["select", "--shard", f"{n}/{given.jobs}", "--turns", str(given.turns)]
        words += ["--seed", str(given.seed), "--each", str(given.each), "--ops", given.ops]
        words += ["--seconds", f"{0.6 * (end - time.monotonic()):.0f}"]
        workers.start(f"select{n}", words)
    found = workers.answers()
    for case, reason in ((c, r) for one in found for c, r in one["refused"].items()):
        print(f"not made: {case}: {reason}")
    calls = [call for one in found for call in one["calls"]]
    return sorted(calls, key=lambda call: -call["first"])


def made(
    name: str, given: argparse.Namespace, calls: Path, jobs: int, folder: Path, end: float
) -> tuple[Processes, list[Path]]:
    """Start the calls in some processes, under a tool or none; also return the tool's logs."""
    workers, logs = Processes(folder, end), list[Path]()
    for n in range(jobs):
        words = ["make", str(calls), "--shard", f"{n}/{jobs}", "--device", given.device]
        # The last call, and the tool's report, take time as well.
        words += ["--seconds", f"{max(1.0, (end - time.monotonic()) * 0.9 - 5):.0f}"]
        before: list[str] = []
        if name in TOOLS:
            logs.append(folder / f"{name}{n}.log")
            before = [find(), "--tool", name, "--log-file", str(logs[-1]), "--print-limit", PRINTED]
            before += ["--show-backtrace", "device"]
        workers.start(f"{name}{n}", words, before)
    return workers, logs


def row(name: str, answers: Sequence[Any], logs: Sequence[Path]) -> dict[str, Any]:
    """The record of a tool: its findings in weft's kernels, and the kernels that calls reached."""
    texts = [p.read_text(encoding="utf-8", errors="replace") for p in logs if p.exists()]
    errors: Counter[str] = Counter()
    first: dict[str, str] = {}
    others = 0
    for finding in (f for text in texts for f in findings(text)):
        kernel = re.sub(r"^void ", "", finding.kernel).partition("<")[0].strip()
        if kernel not in NAMES:
            others += finding.times
            continue
        errors[kernel] += finding.times
        place = finding.accesses[0].line if finding.accesses else ""
        first.setdefault(kernel, f"{finding.what} {place}"[:300])
    instances = {tuple(k) for a in answers for k in a["kernels"]}
    reached = {kernel_of(*k) for k in instances}
    return {
        "tool": name,
        "errors": errors.total(),
        "by_kernel": dict(errors),
        "first": first,
        "others": others,
        "unfinished": sum(not complete(text) for text in texts) + len(logs) - len(texts),
        "calls": sum(a["calls"] for a in answers),
        "left": sum(a["left"] for a in answers),
        "strayed": sum(a["strayed"] for a in answers),
        "failed": {k: v for a in answers for k, v in a["failed"].items()},
        "kernels": len(reached),
        "instances": len(instances),
        "never": sorted(set(every_kernel()) - reached),
    }


def show(rows: Sequence[dict[str, Any]]) -> None:
    """Print a table, the first error in each kernel, and what was not reached."""
    columns = ("errors", "calls", "left", "strayed", "kernels", "instances", "unfinished")
    print("".join([f"{'tool':10}", *(f"{c:>12}" for c in columns)]))
    for r in rows:
        print("".join([f"{r['tool']:10}", *(f"{r[c]:>12,}" for c in columns)]))
    for r in rows:
        for kernel, text in r["first"].items():
            print(f"{r['tool']}: {kernel}: {r['by_kernel'][kernel]:,} errors, the first: {text}")
        for call, reason in r["failed"].items():
            print(f"{r['tool']}: failed: {call}: {reason[:200]}")


def record(rows: Sequence[dict[str, Any]]) -> None:
    """Append the rows, with the machine that they were measured on."""
    from weft.ops.sweep import gpu

    said = subprocess.run(
        [find(), "--version"], capture_output=True, text=True, check=False, encoding="utf-8"
    ).stdout
    version = re.search(r"[Vv]ersion (\S+)", said)
    machine = {**gpu.about(), "compute_sanitizer": version[1] if version else ""}
    with RECORDS.open("a", encoding="utf-8") as file:
        for r in rows:
            file.write(json.dumps({**r, **machine}) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=330, help="of all that is done here")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at once")
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--turns", type=int, default=12, help="calls drawn of each case")
    parser.add_argument("--each", type=int, default=3, help="instances of a kernel, if there are")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ops", default="", help="names of cases, by commas; by default all")
    parser.add_argument("--device", default="cuda", help="cpu: the simulated GPU, without tools")
    parser.add_argument("--logs", type=Path, help="a folder that keeps what the tools print")
    given = parser.parse_args()
    start = time.monotonic()
    tools = given.tools.split(",") if given.device == "cuda" else []
    with tempfile.TemporaryDirectory() as name:
        folder = given.logs or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        calls = selected(given, folder, start + SELECTING * given.seconds)
        (folder / "calls").write_text(json.dumps(calls), encoding="utf-8")
        took = time.monotonic() - start
        print(f"{len(calls)} calls selected in {took:.0f} s", flush=True)
        end = start + (WARMING if tools else 1.0) * given.seconds
        workers, _ = made("no tool", given, folder / "calls", given.jobs, folder, end)
        rows = [row("no tool", workers.answers(), [])]
        print(
            f"{rows[0]['calls']} made without a tool by {time.monotonic() - start:.0f} s",
            flush=True,
        )
        jobs, end = max(1, given.jobs // max(1, len(tools))), start + given.seconds
        running = [made(tool, given, folder / "calls", jobs, folder, end) for tool in tools]
        rows += [
            row(tool, workers.answers(), logs)
            for tool, (workers, logs) in zip(tools, running, strict=True)
        ]
    show(rows)
    if not given.ops:
        for r in rows:
            print(f"{r['tool']}: not reached: {', '.join(r['never']) or 'none'}")
    print(f"{time.monotonic() - start:.0f} s in all")
    if tools:
        record(rows[1:])
    return int(any(r["errors"] or r["unfinished"] for r in rows))


if __name__ == "__main__":
    sys.exit(main())
