"""Start-up, launch overhead and memory, each measured in processes of their own."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PROBE = Path(__file__).with_name("probe.py")


def start(rounds: int) -> dict[str, Any]:
    """The first launch from an empty cache; then in new processes, as it is and edited."""
    cold, cached, edited = [], [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(_probe("start", cache))
            cached.append(_probe("start", cache))
            edited.append(_probe("edited", cache))
    return {"cold": _medians(cold), "cached": _medians(cached), "edited": _medians(edited)}


def empty(rounds: int) -> dict[str, Any]:
    """Seconds of a warm launch of an empty kernel."""
    with tempfile.TemporaryDirectory() as cache:
        return _medians([_probe("empty", cache) for _ in range(rounds)])


def memory(rounds: int) -> dict[str, Any]:
    """Peak bytes of a process that compiles everything it runs."""
    out = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            out.append(_probe("memory", cache))
    return _medians(out)


def _probe(name: str, cache: str) -> dict[str, float]:
    environment = {**os.environ, "WEFT_CACHE_DIR": cache}
    # Users keep bytecode.
    for setting in ("WEFT_THREADS", "WEFT_DRAFTS", "PYTHONDONTWRITEBYTECODE"):
        environment.pop(setting, None)
    done = subprocess.run(
        [sys.executable, str(PROBE), name], env=environment, check=True, stdout=subprocess.PIPE
    )
    out: dict[str, float] = json.loads(done.stdout)
    return out


def _medians(runs: list[dict[str, float]]) -> dict[str, Any]:
    keys = runs[0]
    return {
        **{k: statistics.median(r[k] for r in runs) for k in keys},
        "least": {k: min(r[k] for r in runs) for k in keys},
    }


MEASUREMENTS = {"start": start, "empty": empty, "memory": memory}
