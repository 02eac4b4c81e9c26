"""The layout of the code: folders small enough to read their names at once."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import weft

MOST = 22
"""Modules of a folder; `__init__.py` does not count."""


def test_no_folder_has_many_modules() -> None:
    root = Path(weft.__file__).parent
    modules = (p.relative_to(root) for p in root.rglob("*.py") if p.name != "__init__.py")
    sizes = Counter(str(p.parent) for p in modules if p.parts[0] != "ladders")
    assert len(sizes) > 20
    assert {folder: n for folder, n in sizes.items() if n > MOST} == {}


MOST_LINES = 500
"""Lines of a module; most have fewer than 250."""


def test_no_module_is_long() -> None:
    root = Path(weft.__file__).parent
    lengths = {p: p.read_text("utf-8").count("\n") for p in root.rglob("*.py")}
    long = {str(p.relative_to(root)): n for p, n in lengths.items() if n > MOST_LINES}
    assert long == {}


def test_names_of_test_files_are_unique() -> None:
    """Pytest imports a test file by its name without the folder."""
    names = Counter(path.name for path in Path(__file__).parents[1].rglob("test_*.py"))
    assert not [name for name, count in names.items() if count > 1]


def test_cuda_has_at_most_100_columns() -> None:
    """The formatter leaves comments that `weft climb` reads as they are, so this test looks."""
    root = Path(weft.__file__).parent
    files = [p for p in root.rglob("*.cu*") if p.suffix in (".cu", ".cuh")]
    assert len(files) > 300
    lines = (
        (p, n, text) for p in files for n, text in enumerate(p.read_text("utf-8").split("\n"), 1)
    )
    assert [f"{p.relative_to(root)}:{n}" for p, n, text in lines if len(text) > 100] == []


# ---- files and processes -----------------------------------------------------------------------
def _text_without_encoding(call: ast.Call) -> bool:
    """Decide whether a call reads or writes text in the encoding of the user's locale."""
    given = {k.arg: ast.unparse(k.value) for k in call.keywords}
    if "encoding" in given:
        return False
    if isinstance(call.func, ast.Name) and call.func.id == "open":
        mode = ast.unparse(call.args[1]) if len(call.args) > 1 else given.get("mode", "")
        return "b" not in mode
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    positional = {"read_text": 0, "write_text": 1}.get(name)
    return given.get("text") == "True" or (positional is not None and len(call.args) <= positional)


def _without_encoding(text: str) -> list[int]:
    calls = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    return [call.lineno for call in calls if _text_without_encoding(call)]


def test_text_is_read_and_written_as_utf8() -> None:
    """In the locale C, the files of weft would end in a UnicodeDecodeError."""
    examples = (
        "p.read_text()",
        "p.read_text('utf-8')",
        "run(c, text=True)",
        "open(p)",
        "open(p, 'rb')",
    )
    assert _without_encoding("\n".join(examples)) == [1, 3, 4]
    files = list(Path(weft.__file__).parent.rglob("*.py"))
    assert [f"{p}:{n}" for p in files for n in _without_encoding(p.read_text("utf-8"))] == []


# ---- inputs of tests ---------------------------------------------------------------------------
DEPENDS_ON_CPU = {"rand", "rand_like", "randn", "randn_like", "normal"}
DISTRIBUTIONS = {"test_ops_sweep.py", "test_fuse.py"}
"""Tests of random numbers themselves: they compare distributions, not bits."""


def _draws(text: str) -> Iterator[int]:
    """Lines that draw with torch on the CPU, whose vector units decide the bits."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            by_torch = isinstance(node.func.value, ast.Name) and node.func.value.id == "torch"
            on_gpu = any(
                k.arg == "device" and "cuda" in ast.unparse(k.value) for k in node.keywords
            )
            if by_torch and node.func.attr in DEPENDS_ON_CPU and not on_gpu:
                yield node.lineno


def test_inputs_are_the_same_on_every_cpu() -> None:
    """`tests/support/draw.py` draws tensors with the same bits everywhere."""
    assert list(_draws("x = torch.randn(3)\ny = draw.seeded(1).normal(3)")) == [1]
    tests = Path(__file__).parents[1]
    files = [p for p in tests.rglob("*.py") if p.name not in DISTRIBUTIONS]
    assert len(files) > 100
    found = [f"{p.relative_to(tests)}:{n}" for p in files for n in _draws(p.read_text("utf-8"))]
    assert found == []


# ---- families of ops ---------------------------------------------------------------------------
FAMILY = ("op.py", "model.py", "cases.py", "README.md")
"""Files of every folder of src/weft/ops/families."""


def test_every_op_family_is_complete() -> None:
    """A family has its ops, cost model, random calls, description of kernels, and tests."""
    folder = Path(weft.__file__).parent / "ops" / "families"
    families = sorted(p.name for p in folder.iterdir() if (p / "__init__.py").is_file())
    assert len(families) > 10
    missing = [f"{f}/{n}" for f in families for n in FAMILY if not (folder / f / n).is_file()]
    tests = Path(__file__).parents[1] / "ops"
    missing += [f"tests of {f}" for f in families if not list(tests.glob(f"test_{f}*.py"))]
    assert missing == []
