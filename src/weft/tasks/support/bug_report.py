"""Collects the facts for the report of a bug, without secrets of the user.

Of the environment, only variables of weft (WEFT_*) are read. Of a launch, shapes and dtypes are
collected and no values. The home folder is written as ~, other folders of files are left out.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import weft
from weft import user_paths
from weft.device.sim.run import host
from weft.errors import Error
from weft.frontends.files import PROGRAMS
from weft.installation import DISTRIBUTION
from weft.tasks.devices import devices
from weft.values.support.bug_report import Argument, BugReport, Failure

PACKAGES = (
    "numpy", "llvmlite", "cuda-bindings", "cuda-core", "nvidia-cuda-nvrtc", "nvidia-cuda-runtime",
    "nvidia-cuda-crt", "nvidia-cuda-cccl", "typer", "rich", "jinja2", "markdown-it-py", "pygments",
)  # fmt: skip
"""The packages that weft depends on."""
OPTIONAL = ("torch", "triton", "numba", "numba-cuda", "nvidia-cuda-nvcc", "starlette", "uvicorn")
"""Packages that weft uses if they are installed."""


def collect(file: Path | None = None) -> BugReport:
    """Collect the facts; with a file, run it and describe the error that ends it."""
    failure = None if file is None else _failure(file)
    settings = {k: _redacted(v) for k, v in sorted(os.environ.items()) if k.startswith("WEFT_")}
    name = "" if file is None else file.name
    return BugReport(dict(_versions()), dict(_machine()), settings, name, failure)


def _versions() -> Iterator[tuple[str, str]]:
    yield "Python", f"{platform.python_implementation()} {platform.python_version()}"
    yield DISTRIBUTION, weft.__version__
    for name in (*PACKAGES, *OPTIONAL):
        try:
            yield name, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            if name in PACKAGES:
                yield name, "not installed"


def _machine() -> Iterator[tuple[str, str]]:
    yield "operating system", f"{platform.system()} {platform.release()}"
    yield "C library", " ".join(platform.libc_ver()).strip() or "unknown"
    machine = host.describe()
    yield "CPU", " ".join((platform.machine(), machine.cpu, *machine.vectors))
    yield "threads", str(machine.threads)
    found = devices()
    for gpu in found.real:
        yield f"gpu:{gpu.number}", f"{gpu.name}, {gpu.machine}"
    if found.driver is None:
        yield "GPU", f"none: {_redacted(found.absence)}"
    else:
        cuda = ".".join(map(str, found.driver.cuda))
        yield "driver", f"{found.driver.driver or 'of unknown version'}, CUDA {cuda}"


def _failure(file: Path) -> Failure | None:
    """Run a file in a process of its own; None if it ends without an error."""
    user_paths.must_exist(file, (".py", *filter(None, PROGRAMS)), "a script or a CUDA program")
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "failure.json"
        module = "weft.tasks.support.failing"
        command = [sys.executable, "-m", module, str(file), str(result)]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        if result.is_file():
            return _read(json.loads(result.read_text("utf-8")))
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise Error(
            "the file ended without an error that weft can describe",
            where=str(file),
            got=f"exit code {done.returncode}: {said[-1] if said else 'nothing was printed'}",
            next=f"`weft run {file}` shows its whole output",
        )
    return None


def _read(facts: dict[str, Any]) -> Failure:
    """A failure from JSON: paths without their folders, the home folder as ~."""
    arguments = [
        Argument(a["name"], a["type"], None if a["shape"] is None else tuple(a["shape"]))
        for a in facts["arguments"]
    ]
    return Failure(
        kind=facts["kind"],
        what=_redacted(facts["what"]),
        where=_redacted(os.path.basename(facts["where"])),
        frames=tuple(os.path.basename(f) for f in facts["frames"]),
        kernel=facts["kernel"],
        arguments=tuple(arguments),
        sources={os.path.basename(k): _redacted(v) for k, v in facts["sources"].items()},
    )


def _redacted(text: str) -> str:
    """A text with the home folder written as ~."""
    home = os.path.expanduser("~").rstrip(os.sep)
    return text.replace(home, "~") if home else text
