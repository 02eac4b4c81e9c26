"""The metadata that pip sees: name, extras and version, and what errors say of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib

import weft
from folders import ROOT
from weft.installation import DISTRIBUTION, pip_install

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
OTHERS = re.compile(r"(?<![\w/-])weft\\?\[\w+|pip install '?weft\b(?!-gpu)")
"""Commands that would install the other project, `weft` on PyPI; a path is a clone of this one."""
TEXTS = [
    *(p for d in ("src", "docs", "scripts") for p in (ROOT / d).rglob("*") if p.suffix != ".png"),
    *ROOT.glob("*.md"),
    ROOT / "Makefile",
    ROOT / "pyproject.toml",
]


def test_the_name_of_the_distribution() -> None:
    assert PROJECT["name"] == DISTRIBUTION == "weft-gpu"
    main = "weft.__main__:main"
    assert PROJECT["scripts"] == {"weft": main, DISTRIBUTION: main}  # `uvx weft-gpu tour`


def test_nothing_installs_the_other_weft() -> None:
    files = [p for p in TEXTS if p.is_file() and "__pycache__" not in p.parts]
    assert len(files) > 300
    named = {p: OTHERS.findall(p.read_text(errors="replace")) for p in files}
    assert {p: found for p, found in named.items() if found} == {}
    assert OTHERS.search("pip install 'weft[torch]'") and OTHERS.search("pip install weft")
    assert not OTHERS.search("pip install '/home/me/weft[torch]'")
    assert not OTHERS.search(pip_install("torch"))


def test_every_extra_that_is_named_is_there() -> None:
    sources = "".join(p.read_text() for p in (ROOT / "src").rglob("*.py"))
    texts = sources + "".join(p.read_text() for p in (ROOT / "docs").glob("*.md"))
    named = {
        *re.findall(r'pip_install\(["\'](\w+)', sources),
        *re.findall(r"weft-gpu\[(\w+)", texts),
    }
    assert {"torch", "triton", "numba", "nvcc", "curand"} <= named <= EXTRAS.keys()


def test_the_oldest_pytorch_is_the_same_everywhere() -> None:
    (least,) = {re.sub(r"torch>=", "", r) for e in EXTRAS.values() for r in e if "torch>=" in r}
    asked = [
        re.findall(r"PyTorch (\d\.\d+) or newer", p.read_text()) for p in TEXTS if p.suffix == ".md"
    ]
    assert {version for found in asked for version in found} == {least}


def test_the_version_needs_no_installed_metadata() -> None:
    """From a source tree alone, where importlib.metadata knows of no weft."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    where = str(ROOT / "src")
    code = f"import sys; sys.path.insert(0, {where!r}); import weft; print(weft.__version__)"
    command = [sys.executable, "-I", "-c", code]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == weft.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", weft.__version__)
    assert "version" in PROJECT["dynamic"] and "version" not in PROJECT  # one place: __init__.py


def test_the_command_prints_the_version() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "weft", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"weft {weft.__version__}"


def test_the_extra_that_names_the_distribution_itself() -> None:
    (own,) = [r for r in EXTRAS["dev"] if r.startswith(DISTRIBUTION)]
    assert set(re.findall(r"\w+", own.removeprefix(DISTRIBUTION))) <= EXTRAS.keys()
