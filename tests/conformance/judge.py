"""Judges the simulator by the GPU of this machine, and records what came of it.

    python tests/conformance/judge.py                      everything, some minutes on 16 cores
    python tests/conformance/judge.py --part 0.05          a twentieth of everything
    python tests/conformance/judge.py --only forms tiles   some of it
    python tests/conformance/judge.py --record FOLDER      and write the recording there
    python tests/conformance/judge.py --record FOLDER --add   to what is recorded already

Needs an NVIDIA GPU of compute capability 9.0 and ptxas. The findings of every form, function,
tile, program and kernel are written as JSON lines; the recording is what `golden.py` reads.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "support"), str(TESTS.parent / "src")]

from conformance import catalogue, functions, golden, mixes, tasks, tiles, whole  # noqa: E402
from conformance.pool import spread  # noqa: E402

KINDS = ("forms", "functions", "tiles", "programs", "kernels")
PHASES = (("kernels", "forms"), ("tiles", "functions", "programs"))
"""Long pieces first, and programs last: they need the opcodes that came through as forms."""
BATCH = {"forms": 64, "functions": 1, "tiles": 1, "programs": 12}
"""Items a task: one module of PTX."""
SEED = 1
Findings = dict[str, list[dict[str, Any]]]


def batches(kind: str, items: Sequence[Any]) -> Iterator[str]:
    """Items as tasks."""
    for i in range(0, len(items), BATCH[kind]):
        yield json.dumps([kind, items[i : i + BATCH[kind]]])


def work(kind: str, part: float, found: Findings) -> Iterator[str]:
    """The tasks of a kind that have no finding; programs use opcodes that came through as forms."""
    step, known = max(1, round(1 / part)), {x["name"] for x in found[kind]}
    if kind == "forms":
        names = [f.name for f in catalogue.forms()][::step]
        yield from batches(kind, [name for name in names if name not in known])
    elif kind == "functions":
        pieces = range(functions.LAUNCHES)
        yield from batches(
            kind, [(o, p) for o in functions.opcodes() if o not in known for p in pieces][::step]
        )
    elif kind == "tiles":
        yield from batches(kind, [x for x in tiles.opcodes() if x not in known][::step])
    elif kind == "programs":
        opcodes = golden.opcodes(found["forms"])
        names = [f"{k} {SEED} {i}" for k, n in mixes.KINDS.items() for i in range(int(n * part))]
        for task in batches(kind, [name for name in names if name not in known]):
            yield json.dumps([kind, [opcodes, json.loads(task)[1]]])
    elif not known:
        yield from (json.dumps([kind, piece]) for piece in whole.pieces())


def judge(
    kinds: Sequence[str], part: float, workers: int, seconds: float, before: Findings
) -> Iterator[Findings]:
    """Everything asked for in two phases; what is left when time is up stays undone."""
    found: Findings = collections.defaultdict(list, before)
    until = time.time() + seconds
    for phase in PHASES:
        chosen = [kind for kind in phase if kind in kinds]
        work_left = itertools.chain.from_iterable(work(kind, part, found) for kind in chosen)
        began = time.time()
        for task, answer in spread(tasks.run, work_left, workers, until):
            if isinstance(answer, str):
                found["errors"].append({"task": task[:2000], "error": answer[-1500:]})
            else:
                found[json.loads(task)[0]] += answer
        for kind in chosen:
            print(f"{kind}: {summary(found[kind])}; {time.time() - began:.0f} s", flush=True)
        yield found


def summary(findings: Sequence[dict[str, Any]]) -> str:
    """One line of counts."""
    ran = [x for x in findings if "differing" in x]
    wrong = [x for x in ran if x["differing"]]
    refused = sum("refused" in x for x in findings)
    missing = sum("simulator" in x for x in findings)
    return (
        f"{len(ran)} ran, {len(wrong)} differ, {refused} refused by the assembler, "
        f"{missing} by the simulator"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--part", type=float, default=1.0, help="the share that is run")
    parser.add_argument("--only", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=540, help="begin nothing after these")
    parser.add_argument("--record", type=Path, help="write findings and recording to this folder")
    parser.add_argument("--add", action="store_true", help="only what is not recorded yet")
    given = parser.parse_args()
    found: Findings = {}
    before = golden.whole() if given.add else {}
    for found in judge(given.only, given.part, given.workers, given.seconds, before):
        if given.record:  # after each phase: a run that is cut off leaves what it has
            golden.write(found, given.record)
    wrong = [(k, x) for k, items in found.items() for x in items if x.get("differing")]
    for kind, x in wrong[:60]:
        print(kind, json.dumps({k: v for k, v in x.items() if k not in ("text", "sample")})[:600])
    for x in found["errors"][:8]:
        print("failed:", x["task"][:300], x["error"])
    return int(bool(wrong or found["errors"]))


if __name__ == "__main__":
    sys.exit(main())
