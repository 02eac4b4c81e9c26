"""Builds the wheel and the source distribution into dist/, and checks both.

    python scripts/dist.py      builds both twice; the files must be equal, bit by bit

SOURCE_DATE_EPOCH is the time of the last commit, so that a build of the same commit has the same
bits on another day. The wheel must hold the files of src/weft that git tracks, and no others. The
build backend is installed into a virtual environment of its own, build/backend.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
BACKEND = ROOT / "build" / "backend"
BESIDE = {"README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml", "PKG-INFO", ".gitignore"}
"""Files of the source distribution beside src/weft."""


def main() -> None:
    """Build twice, compare, check what is inside, and print the hashes."""
    python, environment = _backend(), {**os.environ, "SOURCE_DATE_EPOCH": _epoch()}
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        hashes = [_build(python, folder, environment) for folder in (first, second)]
        if hashes[0] != hashes[1]:
            sys.exit(f"error: two builds of one commit differ\n  got: {hashes[0]}, {hashes[1]}")
        _check(Path(first))
        shutil.rmtree(DIST, ignore_errors=True)
        shutil.copytree(first, DIST)
    for name, digest in hashes[0].items():
        print(f"{digest}  {name}")


def _backend() -> Path:
    """The Python of an environment with the build backend of pyproject.toml."""
    python = BACKEND / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not python.exists():
        venv.create(BACKEND, with_pip=True)
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"]["requires"]
    subprocess.run([python, "-m", "pip", "install", "--quiet", *needed], check=True)
    return python


def _epoch() -> str:
    return _git("log", "-1", "--format=%ct").strip()


def _git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=ROOT, check=True, capture_output=True, encoding="utf-8"
    ).stdout


def _build(python: Path, folder: str, environment: dict[str, str]) -> dict[str, str]:
    """Build both files into a folder; return the hash of each."""
    command = [python, "-m", "hatchling", "build", "--directory", folder]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    files = sorted(Path(folder).iterdir())
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _check(folder: Path) -> None:
    """Exit with an error unless both files hold the tracked files of the package, and no others."""
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    tracked = set(_git("ls-files", "src/weft").split())
    with zipfile.ZipFile(wheel) as archive:
        inside = {f"src/{n}" for n in archive.namelist() if ".dist-info/" not in n}
    _compare(wheel.name, inside, tracked)
    with tarfile.open(source) as archive:
        inside = {m.name.partition("/")[2] for m in archive.getmembers() if m.isfile()}
    _compare(source.name, inside - BESIDE, tracked)


def _compare(name: str, inside: set[str], tracked: set[str]) -> None:
    missing, extra = sorted(tracked - inside), sorted(inside - tracked)
    if missing or extra:
        sys.exit(
            f"error: {name} does not hold what git tracks in src/weft\n"
            f"  missing: {missing[:9]}\n  not tracked: {extra[:9]}\n"
            "  next: commit new files, or remove them"
        )


if __name__ == "__main__":
    main()
