"""Judges today's simulator by recorded answers, where the one of the recording did not give them.

    python tests/conformance/replay.py        after a row was mended: no GPU is needed

Forms and programs that differed and now give the recorded checksum are marked as exact. Of programs
that still differ, only the places that do are kept, and it is noted whether the program as ptxas
understood it (`mistakes.py`) gives the recorded checksum: that shows the cause.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "support"), str(TESTS.parent / "src")]

import weft  # noqa: E402
from conformance import catalogue, golden, mistakes, mixes, tasks  # noqa: E402
from conformance.compare import digest  # noqa: E402
from conformance.devices import Simulated  # noqa: E402
from conformance.pool import spread  # noqa: E402

Finding = dict[str, Any]
SPOILED = ("ulp", "example", "text", "simulator", "shown")
"""The fields of a finding that it has only where they differ."""


def again(task: str) -> list[Finding]:
    """A finding as it is now; task is [kind, name, checksum]."""
    kind, name, wanted = json.loads(task)
    try:
        arrays = _form(name) if kind == "forms" else program(name)
    except weft.Error:
        return [{"kind": kind, "name": name, "exact": False}]
    finding: Finding = {"kind": kind, "name": name, "exact": digest(arrays) == wanted}
    if kind == "programs" and not finding["exact"]:
        found = next(x for x in golden.read()["findings"][kind] if x["name"] == name)
        found = {**found, "example": _left(found["example"], arrays)}
        shown = digest(program(name, mistakes.rewritten(found))) == wanted
        finding |= {"example": found["example"], "shown": shown}
    return [finding]


def _left(example: Finding, arrays: list[np.ndarray]) -> Finding:
    """The recorded places that still differ."""
    now = [hex(int(arrays[example["array"]][i])) for i in example["places"]]
    rows = [x for x in zip(example["places"], example["gpu"], now, strict=True) if x[1] != x[2]]
    places, gpu, simulator = zip(*rows, strict=True) if rows else ((), (), ())
    return {**example, "places": list(places), "gpu": list(gpu), "simulator": list(simulator)}


def _form(name: str) -> list[np.ndarray]:
    form = tasks.by_name()[name]
    out = tasks.outputs(form)
    shape = (tasks.COUNT // tasks.BLOCK, 1, 1), (tasks.BLOCK, 1, 1)
    Simulated(tasks.TOP + form.kernel("k")).run("k", *shape, [*tasks.inputs(form), *out])
    return out


def program(name: str, text: str | None = None) -> list[np.ndarray]:
    """The results of a program, or of another text in its place."""
    made = mixes.make(name, golden.opcodes(golden.read()["findings"]["forms"]), "k")
    text = re.sub(r"\.entry \w+\(", ".entry k(", text or made.text, count=1)
    Simulated(tasks.TOP + text).run("k", made.grid, made.block, made.arguments)
    return [x for x in made.arguments if isinstance(x, np.ndarray)]


def main() -> None:
    record = golden.read()
    wrong = [
        (kind, x)
        for kind in ("forms", "programs")
        for x in record["findings"][kind]
        if "sum" in x and (x.get("differing") or "simulator" in x)
    ]
    work = (json.dumps([kind, x["name"], x["sum"]]) for kind, x in wrong)
    now: dict[tuple[str, str], Finding] = {}
    for task, answer in spread(again, work, os.cpu_count() or 1, time.time() + 3600):
        if isinstance(answer, str):
            sys.exit(f"{task}: {answer}")
        now |= {(x["kind"], x["name"]): x for x in answer}
    for kind, x in wrong:
        found = now[kind, x["name"]]
        if found["exact"]:
            for key in SPOILED:
                x.pop(key, None)
            x["differing"] = 0
        x |= {key: found[key] for key in ("example", "shown") if key in found}
    golden.save({**record, "left_out": catalogue.left_out()}, golden.FOLDER)
    left = [x["name"] for kind, x in wrong if not now[kind, x["name"]]["exact"]]
    print(f"{len(wrong) - len(left)} of {len(wrong)} are exact now; left: {', '.join(left[:20])}")


if __name__ == "__main__":
    main()
