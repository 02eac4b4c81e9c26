"""`weft new op`: the new family is found by its folder, and its op works."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import weft
from weft.cli import app

torch = pytest.importorskip("torch")

import weft.ops.families  # noqa: E402
from weft.ops.core import library, scaffold  # noqa: E402


@pytest.fixture
def families(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder of families in a checkout, beside those of weft."""
    folder = tmp_path / "src" / "weft" / "ops" / "families"
    folder.mkdir(parents=True)
    (tmp_path / "tests" / "ops").mkdir(parents=True)
    monkeypatch.setattr(weft.ops.families, "__path__", [*weft.ops.families.__path__, str(folder)])
    cached = (library.definitions, library.makers)
    for function in cached:
        function.cache_clear()
    yield folder
    for function in cached:
        function.cache_clear()


def test_a_new_op_works(families: Path) -> None:
    files = scaffold.new_family("threefold", families)
    names = {path.name for path in files}
    assert {"op.py", "model.py", "cases.py", "README.md", "test_threefold.py"} <= names
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    y = weft.ops.threefold(x.t())
    y.sum().backward()
    assert torch.equal(y, 2 * x.t()) and torch.equal(x.grad, torch.full((2, 3), 2.0))
    assert library.modules("cases")["threefold"].CASES[0].name == "threefold"


def test_refused(families: Path, tmp_path: Path) -> None:
    scaffold.new_family("fourfold", families)
    with pytest.raises(weft.ArgumentError, match="there is such a family"):
        scaffold.new_family("fourfold", families)
    with pytest.raises(weft.ArgumentError, match="a Python name in lower case"):
        scaffold.new_family("4 fold", families)
    with pytest.raises(weft.ArgumentError, match="in a clone of weft's repository"):
        scaffold.new_family("fivefold", tmp_path / "lib" / "site" / "weft" / "ops" / "families")


def test_the_command_line(families: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaffold.new_family, "__defaults__", (families,))
    made = CliRunner().invoke(app, ["new", "op", "sixfold", "--json"])
    assert str(families / "sixfold" / "op.py") in json.loads(made.stdout)["files"]
    made = CliRunner().invoke(app, ["new", "op", "sevenfold"])
    assert "Next: pytest" in made.stdout and "test_sevenfold.py" in made.stdout
    refused = CliRunner().invoke(app, ["new", "op", "sevenfold", "--in", str(families)])
    assert "has its place in weft's repository" in refused.output
