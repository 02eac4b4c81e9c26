"""Imports go down only, also those in functions, by a string or through an attribute of `weft`.

import-linter reads import statements. A module that imports another by its name in a string hides
from it, so this test reads the strings of all modules as well. The layers of pyproject.toml are
the list for both.
"""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import weft

ROOT = Path(weft.__file__).parent
USERS = ("ladders/*/*", "learn/chapters/*/*", "learn/puzzles/*/*", "lab/examples/*")
"""Files that are written as users write theirs: they import weft as a whole."""
FACE = ("weft", "weft.__main__")
"""The public face: it names every layer, and no layer imports a name that it finds later."""


IMPORTERS = {"import_module", "__import__", "with_torch", "find_spec"}
"""Functions that take the name of a module."""


class Import(NamedTuple):
    """One import; `by_string` for a name in a string, `called` for one that is given to importers.

    Names in tables, e.g. of attributes that are found later, are given to nobody.
    """

    target: str
    line: int
    by_string: bool = False
    called: bool = False


def _levels() -> dict[str, int]:
    """Module or package -> its layer, the top one is 0."""
    text = (ROOT.parents[1] / "pyproject.toml").read_text("utf-8")
    contracts = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    rows = next(c["layers"] for c in contracts if c["name"] == "imports go down only")
    return {name: i for i, row in enumerate(rows) for name in re.findall(r"weft\.\w+", row)}


@functools.cache
def _modules() -> dict[str, str]:
    """Name -> source of every module."""
    files = [p for p in ROOT.rglob("*.py") if not any(p.relative_to(ROOT).match(u) for u in USERS)]
    parts = {p: p.relative_to(ROOT.parent).with_suffix("").parts for p in files}
    return {
        ".".join(x[: -1 if x[-1] == "__init__" else None]): p.read_text("utf-8")
        for p, x in parts.items()
    }


def _imports(source: str, modules: Mapping[str, str]) -> Iterator[Import]:
    """The modules of weft that a source names, wherever in it."""
    nodes = list(ast.walk(ast.parse(source)))
    docs = {id(n.value) for n in nodes if isinstance(n, ast.Expr)}
    calls = [n for n in nodes if isinstance(n, ast.Call)]
    names = {id(c): getattr(c.func, "id", getattr(c.func, "attr", "")) for c in calls}
    given = {id(x) for c in calls if names[id(c)] in IMPORTERS for x in c.args}
    named = set(modules) - {"weft"}
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (Import(a.name, node.lineno) for a in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = (f"{node.module}.{a.name}" for a in node.names)
            yield from (Import(n if n in modules else node.module, node.lineno) for n in inner)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "weft" and node.attr in weft._HOME:
                yield Import(weft._HOME[node.attr], node.lineno)
        elif isinstance(node, ast.JoinedStr) and id(node) in given:
            start = node.values[0]
            if isinstance(start, ast.Constant) and str(start.value).startswith("weft."):
                yield Import(str(start.value).rpartition(".")[0], node.lineno, True, True)
        elif isinstance(node, ast.Constant) and id(node) not in docs and node.value in named:
            yield Import(str(node.value), node.lineno, True, id(node) in given)


def _refused(modules: Mapping[str, str], levels: Mapping[str, int]) -> Iterator[str]:
    """Describe the imports that lead up, and those by a string that close a circle.

    A package may load its own parts late.
    """
    found = {
        name: [i for i in _imports(text, modules) if i.target.startswith("weft")]
        for name, text in modules.items()
    }

    @functools.cache
    def reached(name: str) -> frozenset[str]:
        seen, waiting = set[str](), [name]
        while waiting:
            for one in found.get(waiting.pop(), ()):
                if not one.by_string and one.target not in (*seen, *FACE):
                    seen.add(one.target)
                    waiting.append(one.target)
        return frozenset(seen)

    for name in sorted(set(modules) - set(FACE)):
        for one in found[name]:
            layers = [levels.get(".".join(x.split(".")[:2]), -1) for x in (name, one.target)]
            place = f"{name}:{one.line} -> {one.target}"
            if one.by_string and one.target == "weft":
                yield f"{place}: a name that is made at run time"
            elif one.target not in FACE and layers[1] < layers[0]:
                yield f"{place}: up"
            elif (
                one.called and not one.target.startswith(f"{name}.") and name in reached(one.target)
            ):
                yield f"{place}: a circle"


def test_the_test_sees_upward_imports() -> None:
    levels = {"weft.top": 0, "weft.climbing": 0, "weft.low": 1, "weft.beside": 1}
    hidden = {
        "statement": "def f():\n    from weft.top import x",
        "string": 'importlib.import_module("weft.top")',
        "table": 'LAZY = {"f": "weft.top"}',
        "attribute": "import weft\nweft.climb('matmul')",
        "format": 'import_module(f"weft.{name}")',
        "circle": 'import_module("weft.beside")',
    }
    others = {"weft.top": "import weft.low", "weft.beside": "import weft.low"}
    for kind, source in hidden.items():
        assert list(_refused({**others, "weft.low": source}, levels)), kind
    honest = {**others, "weft.low": '"""weft.top"""'}
    assert list(_refused(honest, levels)) == []


DOORS = re.compile(r"weft\.(cli\b.*|pytest_plugin|notebook|lab\.(actions|checks))$")
"""The front doors: they parse, call a task and show its report."""
BEHIND = re.compile(
    r"weft\.(source(\.from_cuda)?$|kernels$|measure\.(check\.(check|workers)|profile\.profile|bench)\b"
    r"|(climbing|train|learn|ptx|ops\.sweep|device\.(gpu|sim|driver|models))\b)"
)
"""Parts of weft that do the work of tasks."""
OWN = {
    "weft.cli.verbs.new": "weft.climbing.scaffold",  # copies templates
    "weft.lab.actions": "weft.learn.grade",  # judges one file of the page
}


def _past_tasks(modules: Mapping[str, str]) -> Iterator[str]:
    """Describe the imports by which a front door does the work of a task itself."""
    for name in filter(DOORS.match, sorted(modules)):
        for one in _imports(modules[name], modules):
            if BEHIND.match(one.target) and one.target != OWN.get(name):
                yield f"{name}:{one.line} -> {one.target}"


def test_front_doors_call_tasks() -> None:
    past = {"weft.cli.verbs.x": "def run():\n    from weft.measure.check.check import check"}
    assert list(_past_tasks(past)) == ["weft.cli.verbs.x:2 -> weft.measure.check.check"]
    assert list(_past_tasks(_modules())) == []


def test_every_module_has_a_layer() -> None:
    packages = {".".join(name.split(".")[:2]) for name in _modules()} - set(FACE)
    assert packages <= set(_levels())


def test_imports_go_down_only() -> None:
    assert list(_refused(_modules(), _levels())) == []
