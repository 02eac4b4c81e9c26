"""Other simulators, run by the Python that has them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

PEERS = Path(__file__).parents[1] / "peers"
SCRIPTS = {
    "numba": ("numba_sim.py", {"NUMBA_ENABLE_CUDASIM": "1"}),
    "triton": ("triton_interpreter.py", {"TRITON_INTERPRET": "1"}),
}
ONE_CORE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def other(name: str, python: str) -> dict[str, Any] | None:
    """A simulator's work and processor seconds by kernel; None if it is not installed."""
    script, setting = SCRIPTS[name]
    environment = {**os.environ, **ONE_CORE, **setting}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        [python, str(PEERS / script)],
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    if done.returncode:
        if "ModuleNotFoundError" in done.stderr:
            return None
        raise RuntimeError(f"{script} failed:\n{done.stderr}")
    out: dict[str, Any] = json.loads(done.stdout)
    return out
