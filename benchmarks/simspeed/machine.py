"""The properties of the machine that was measured, without its name."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

PACKAGES = ["numpy", "llvmlite", "nvidia-cuda-nvrtc"]


def describe() -> dict[str, Any]:
    """Processor, cores, load, versions, and the commit that was timed."""
    return {
        "cpu": _cpu(),
        "architecture": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "g++": _say("g++", "-dumpfullversion"),
        **{p: version(p) for p in PACKAGES},
        "commit": _say("git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"),
    }


def _cpu() -> str:
    found = re.search(r"Model name:\s*(.+)", _say("lscpu"))
    return found[1].strip() if found else platform.processor()


def _say(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    except FileNotFoundError:
        return ""
    return done.stdout.strip()
