"""Runs the quick suite with the lowest versions that pyproject.toml allows.

    python scripts/lowest.py [EXTRA...]    default: curand lab llm numba nvcc torch

uv resolves: every direct dependency of weft and of these extras has the lowest version that is
allowed and fits the others, an indirect one the newest. The environment is build/lowest. The extra
triton needs newer releases of PyTorch than the extra torch: run it by itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / "build" / "lowest"
EXTRAS = ("curand", "lab", "llm", "numba", "nvcc", "torch")
TOOLS = ("pytest", "pytest-timeout", "pytest-xdist")
"""Packages of the extra dev that run the tests."""


def main(*extras: str) -> int:
    """Install the lowest versions, print them and run the tests; return their exit code."""
    tools = PLACE.with_name("uv")
    venv.create(tools, with_pip=True)
    subprocess.run([tools / "bin" / "python", "-m", "pip", "install", "-q", "uv"], check=True)
    uv, python = tools / "bin" / "uv", PLACE / "bin" / "python"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    dev = project["optional-dependencies"]["dev"]
    runners = [one for one in dev if one.partition(">")[0] in TOOLS]
    wanted = f"{ROOT}[{','.join(extras or EXTRAS)}]"
    subprocess.run([uv, "venv", "--clear", "--python", sys.executable, PLACE], check=True)
    install = [uv, "pip", "install", "--python", python, "--resolution", "lowest-direct"]
    subprocess.run([*install, wanted, *runners], check=True)
    subprocess.run([uv, "pip", "list", "--python", python], check=True)
    # Old releases call what newer ones of their own dependencies deprecate.
    quiet = ["-W", "ignore::DeprecationWarning"]
    test = [python, "-m", "pytest", "-q", "-n", "auto", "--suite", "quick", *quiet]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return subprocess.run(test, cwd=ROOT, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
