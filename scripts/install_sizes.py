"""Measures the packages of a base install, and makes the table of docs/install.md.

    python scripts/install_sizes.py     records the packages of this Python's environment

A size is the sum of the files that a package's RECORD lists, without compiled Python files, which
depend on what has been imported.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
import re
import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "benchmarks" / "records" / "install_sizes.json"
NEEDED = {
    "nvidia-cuda-nvrtc": "compiles CUDA C++ to PTX",
    "llvmlite": "generates the machine code of the simulated GPU",
    "nvidia-cuda-cccl": "`cuda/std/*`, which `cuda_fp16.h` and others include; CUB and Thrust",
    "cuda-bindings": "the driver API; locates NVRTC if its wheel is missing",
    "numpy": "the arrays of launches, and references of checks",
    "nvidia-cuda-runtime": "`cuda_fp16.h`, `mma.h`, `cooperative_groups.h`",
    "pygments": "colours of sources on pages; a dependency of rich",
    "cuda-core": "devices, contexts and code on a real GPU",
    "rich": "tables and colours in the terminal",
    "nvidia-cuda-crt": "`crt/*`, which the headers of the runtime include",
    "typer": "the command line",
    "markdown-it-py": "texts of ladders on pages; a dependency of rich",
    "jinja2": "pages of profiles and ladders",
}
"""The reason for each package."""
Table = Callable[[Sequence[str], Iterable[Sequence[object]]], str]


def main() -> None:
    """Measure the packages that weft depends on, directly or not, and record their sizes."""
    found: dict[str, str] = {}  # package -> the one that needs it
    waiting = [(one, "weft-gpu") for one in _dependencies()]
    while waiting:
        requirement, by = waiting.pop(0)
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if name in found or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        found[name] = by
        waiting += [(Requirement(r), name) for r in importlib.metadata.requires(name) or ()]
    packages = [
        {"name": n, "version": importlib.metadata.version(n), "bytes": _bytes(n), "for": by}
        for n, by in found.items()
    ]
    system = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    own = sum(p.stat().st_size for p in (ROOT / "src").rglob("*") if _counts(p))
    text = json.dumps({"system": system, "weft": own, "packages": packages}, indent=1)
    RECORD.write_text(text + "\n", encoding="utf-8")


def _dependencies() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return [Requirement(one) for one in project["dependencies"]]


def _bytes(name: str) -> int:
    listed = importlib.metadata.files(name) or ()
    return sum(Path(p.locate()).stat().st_size for p in listed if _counts(Path(p.locate())))


def _counts(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts


def sizes(table: Table) -> str:
    """The recorded size of each package, and why weft needs it."""
    record = json.loads(RECORD.read_text("utf-8"))
    packages = sorted(record["packages"], key=lambda one: -one["bytes"])
    body = [(f"`{p['name']}` {p['version']}", _megabytes(p["bytes"]), _why(p)) for p in packages]
    body.append(("weft itself", _megabytes(record["weft"]), ""))
    total = sum(p["bytes"] for p in packages) + record["weft"]
    rows = table(("package", "MB#", "needed for"), body)
    return f"{rows}\n\nTotal: {_megabytes(total)} MB ({record['system']})."


def _why(package: dict[str, str]) -> str:
    return NEEDED.get(package["name"]) or f"a dependency of `{package['for']}`"


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.1f}"


if __name__ == "__main__":
    main()
