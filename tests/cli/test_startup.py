"""Start-up: the modules that `import weft` and the command line load."""

from __future__ import annotations

import ast
import importlib
import importlib.machinery
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import weft
from weft.device import jit

HEAVY = (
    "click", "jinja2", "llvmlite", "markdown_it", "numba", "numpy", "pygments", "rich", "torch",
    "triton", "typer",
)  # fmt: skip
SCRIPT = sysconfig.get_path("stdlib") + "/this.py"
"""A script that imports no package with a front end."""
COMMAND = "import sys, weft.__main__ as m; sys.argv[1:] = {!r}\ntry: m.main()\nexcept SystemExit: 0"


@pytest.mark.parametrize(
    ("code", "allowed"),
    [
        ("import weft", ()),
        ("import weft; weft.Error, weft.__version__", ()),
        (COMMAND.format(["--version"]), ()),
        ("import weft; weft.cuda", ("llvmlite", "numpy")),
        ("import weft; weft.check, weft.bench, weft.profile", ("llvmlite", "numpy")),
        (COMMAND.format(["run", SCRIPT]), ()),
        ("import weft.frontends.program.running", ()),
        ("import weft.frontends.program.serve", ("llvmlite", "numpy")),
    ],
    ids=["import", "errors", "version", "compile", "measure", "script", "program", "process"],
)
def test_heavy_modules_are_imported_when_they_are_needed(
    code: str, allowed: tuple[str, ...]
) -> None:
    # names that were there before weft, e.g. by a .pth file, are not weft's
    probe = f"import sys; before = set(sys.modules)\n{code}\n"
    probe += f"print('loaded', *sorted(({set(HEAVY)} & set(sys.modules)) - before))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    loaded = done.stdout.splitlines()[-1].split()[1:]
    assert set(loaded) <= set(allowed)


UNNEEDED = (
    "difflib", "email", "importlib.metadata", "numpy.typing", "subprocess", "tomllib",
    "weft.ir.cut", "weft.ir.mufu", "weft.ir.tensor", "weft.kernels.suggest",
    "weft.kernels.variables", "weft.ptx.initial", "weft.source.assemble", "weft.source.diagnose",
    "weft.source.from_nvcc", "weft.source.toolkit",
)  # fmt: skip
"""Modules for errors, for annotations, for what few kernels have, and for other compilers."""
FIRST_LAUNCH = f"""
import sys
before = set(sys.modules)
import dataclasses, weft
weft.cuda
from weft.device.sim.run.compile import load_compiler
load_compiler()
loaded = {{name: module for name, module in sys.modules.items() if name not in before}}
print("loaded", *(name for name in {UNNEEDED} if name in loaded))
ours = [m for name, m in loaded.items() if name.startswith("weft.")]
print("modules", len(ours))
slow = [m.__name__ for m in ours if vars(m).get("dataclass") is dataclasses.dataclass]
print("slow", *slow)
"""


def test_a_first_launch_imports_only_what_it_needs() -> None:
    command = [sys.executable, "-c", FIRST_LAUNCH]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=True)
    loaded, modules, slow = (line.split()[1:] for line in done.stdout.splitlines()[-3:])
    assert loaded == []
    assert 100 < int(modules[0]) < 240  # 223 when this was written
    assert slow == [], "a hundred classes: take `dataclass` from weft.records"


def test_the_lazy_names_are_those_that_a_type_checker_reads() -> None:
    tree = ast.parse(Path(weft.__file__).read_text())
    checked = next(node for node in tree.body if isinstance(node, ast.If))
    read = {
        node.module: tuple(alias.name for alias in node.names)
        for node in checked.body
        if isinstance(node, ast.ImportFrom)
    }
    assert set(read.pop("weft", ())) <= set(weft._PACKAGES)
    assert read == weft._LAZY


def test_every_public_name_is_there() -> None:
    for name in weft.__all__:
        assert getattr(weft, name) is not None and name in dir(weft)
    for name in weft._PACKAGES:
        assert getattr(weft, name) is importlib.import_module(f"weft.{name}")
    with pytest.raises(AttributeError, match="no attribute 'cudda'"):
        _ = weft.cudda  # type: ignore[attr-defined]


def test_tests_import_weft_as_users_do() -> None:
    """pytest would rewrite all modules of a package that has a plugin: `support/as_installed`."""
    assert type(jit.__loader__) is importlib.machinery.SourceFileLoader
