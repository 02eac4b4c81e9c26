"""Judges today's simulator by recorded answers, where the one of the recording did not give them.

    python tests/conformance/replay.py        after a row was mended: no GPU is needed

Forms and programs that differed and now give the recorded checksum are marked as exact.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS.parent / "src")]

import weft  # noqa: E402
from conformance import catalogue, golden, mixes, tasks  # noqa: E402
from conformance.compare import digest  # noqa: E402
from conformance.devices import Simulated  # noqa: E402
from conformance.pool import spread  # noqa: E402

Finding = dict[str, Any]
SPOILED = ("ulp", "example", "text", "simulator")
"""What a finding has only where it differs."""


def again(task: str) -> list[Finding]:
    """A finding as it is now; task is [kind, name, checksum]."""
    kind, name, wanted = json.loads(task)
    try:
        found = digest(_form(name) if kind == "forms" else _program(name))
    except weft.Error:
        found = ""
    return [{"kind": kind, "name": name, "exact": found == wanted}]


def _form(name: str) -> list[np.ndarray]:
    form = tasks.by_name()[name]
    out = tasks.outputs(form)
    shape = (tasks.COUNT // tasks.BLOCK, 1, 1), (tasks.BLOCK, 1, 1)
    Simulated(tasks.TOP + form.kernel("k")).run("k", *shape, [*tasks.inputs(form), *out])
    return out


def _program(name: str) -> list[np.ndarray]:
    opcodes = golden.opcodes(golden.read()["findings"]["forms"])
    program = mixes.make(name, opcodes, "k")
    Simulated(tasks.TOP + program.text).run("k", program.grid, program.block, program.arguments)
    return [x for x in program.arguments if isinstance(x, np.ndarray)]


def main() -> None:
    record = golden.read()
    wrong = [
        (kind, x)
        for kind in ("forms", "programs")
        for x in record["findings"][kind]
        if "sum" in x and (x.get("differing") or "simulator" in x)
    ]
    work = (json.dumps([kind, x["name"], x["sum"]]) for kind, x in wrong)
    mended = set[tuple[str, str]]()
    for task, answer in spread(again, work, os.cpu_count() or 1, time.time() + 3600):
        if isinstance(answer, str):
            sys.exit(f"{task}: {answer}")
        mended |= {(x["kind"], x["name"]) for x in answer if x["exact"]}
    for kind, x in wrong:
        if (kind, x["name"]) in mended:
            for key in SPOILED:
                x.pop(key, None)
            x["differing"] = 0
    golden.save({**record, "left_out": catalogue.left_out()}, golden.FOLDER)
    left = [x["name"] for kind, x in wrong if (kind, x["name"]) not in mended]
    print(f"{len(mended)} of {len(wrong)} are exact now; left: {', '.join(left[:20])}")


if __name__ == "__main__":
    main()
