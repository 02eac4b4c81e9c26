"""The documents: every example runs and prints what is shown, tables are current, links lead."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

from folders import ROOT

sys.path.insert(0, str(ROOT / "scripts"))

import accuracy_plot
import course_figures
import examples
import tables

from weft import progress
from weft.learn import chapter


def _id(path: Path) -> str:
    """The name of a document; that of a family's README has the family."""
    folder = path.parent
    return f"{folder.name}/{path.name}" if folder.parent == tables.FAMILIES else path.name


DOCUMENTS = [pytest.param(path, id=_id(path)) for path in tables.documents()]


LONG = ("ch27_libraries", "ch30_parallel")
"""Chapters whose examples compile programs with large headers, or start many processes."""
EXAMPLES = [
    pytest.param(path, id=_id(path), marks=pytest.mark.slow if path.parent.name in LONG else ())
    for path in tables.documents()
]


@pytest.mark.parametrize("path", EXAMPLES)
def test_examples_print_what_is_shown(path: Path) -> None:
    assert examples.refreshed(path) == path.read_text(), "run `make tables`"


@pytest.mark.parametrize("path", DOCUMENTS)
def test_tables_are_current(path: Path) -> None:
    assert tables.filled(path.read_text()) == path.read_text(), "run `make tables`"


@pytest.mark.parametrize("path", DOCUMENTS)
def test_links_lead_somewhere(path: Path) -> None:
    prose = re.sub(r"```.*?```|`[^`\n]*`(?!\])", "", path.read_text(), flags=re.DOTALL)
    targets = re.findall(r"\]\((?!https?:)([^)]+)\)", prose)
    assert [target for target in targets if not _leads_somewhere(path, target)] == []


def _leads_somewhere(path: Path, target: str) -> bool:
    name, _, anchor = target.partition("#")
    page = path.parent / name if name else path
    return page.exists() and (not anchor or anchor in _anchors(page.read_text()))


def _anchors(text: str) -> set[str]:
    """The anchors that GitHub gives the headings of a document."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.M)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


SOURCES = ROOT / "src" / "weft"
TOPS = {p.name: p.parent for folder in (SOURCES, ROOT) for p in folder.iterdir() if p.is_dir()}
"""The first part of a path in a document, and the folder that the path starts from."""
PLACEHOLDERS = re.compile(r"NAME|NN|FILE|<|>|[{}$]")


@pytest.mark.parametrize("path", DOCUMENTS)
def test_paths_exist(path: Path) -> None:
    """Paths in backticks, such as `measure/check/tolerance.py`, and names of test files."""
    assert [name for name in _paths(path.read_text()) if not _exists(name)] == []


def test_the_source_tree_in_contributing_exists() -> None:
    (tree,) = re.findall(r"^src/weft/\n(.*?)```", _contributing(), re.DOTALL | re.MULTILINE)
    inside = re.findall(r"^  (\S+(?: \S+)*) ", tree, re.MULTILINE)
    outside = re.findall(r"^(\S+) ", tree, re.MULTILINE)
    named = [SOURCES / name for line in inside for name in line.split()]
    named += [ROOT / name for name in outside]
    assert len(named) > 40
    assert [str(p.relative_to(ROOT)) for p in named if not p.exists()] == []
    packages = {p.name for p in SOURCES.iterdir() if (p / "__init__.py").exists()}
    assert packages <= {p.relative_to(SOURCES).parts[0] for p in named[: -len(outside)]}


def test_a_path_that_is_gone_is_noticed() -> None:
    text = "`tests/cli/test_docs.py` `measure/gone.py` `test_gone.py` `a/b` `tests/<x>.py`\n"
    assert [name for name in _paths(text) if not _exists(name)] == [
        "measure/gone.py",
        "test_gone.py",
    ]


def _paths(text: str) -> list[str]:
    """The words of a document's prose that look like paths of this project."""
    written = re.findall(r"^```\w+ file=(\S+)", text, re.MULTILINE)
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    tokens = [t for t in re.findall(r"`([^`\s]+)`", prose) if not PLACEHOLDERS.search(t)]
    paths = [t for t in tokens if "/" in t and t.split("/")[0] in TOPS and t.split("/")[1]]
    return [
        *paths,
        *(t for t in tokens if re.fullmatch(r"test_[\w*]+\.py", t) and t not in written),
    ]


def _exists(name: str) -> bool:
    if "/" not in name:
        return any((ROOT / "tests").rglob(name))
    return any(TOPS[name.split("/")[0]].glob(name.rstrip("/")))


def _contributing() -> str:
    return (ROOT / "CONTRIBUTING.md").read_text()


def test_functions_exist_where_documents_say() -> None:
    """`name(...)` in `path.py`."""
    texts = "".join(path.read_text() for path in tables.documents())
    named = re.findall(r"`(\w+)\([^`]*\)`\s+in\s+`([\w/]+\.py)`", texts)
    assert len(named) >= 2
    for function, path in named:
        (file,) = TOPS[path.split("/")[0]].glob(path)
        assert re.search(rf"^def {function}\(", file.read_text(), re.MULTILINE), (function, path)


def test_the_readme_is_short() -> None:
    """It is read in thirty seconds; long tables are in docs/."""
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 150
    rows = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert all(table.count("\n") <= 2 + 6 for table in rows)
    filled = [line for line in text.splitlines() if "<!-- table:" in line]
    names = ("ops_line", "train_line", "networks_line")
    assert filled == [f"<!-- table:{name} -->" for name in names]


def test_the_plot_of_training_is_current() -> None:
    for path, text in accuracy_plot.files().items():
        assert path.read_text() == text, "run `make tables`"
        assert text.count("<polyline") >= 2  # weft and PyTorch


def test_the_figures_of_the_course_are_current() -> None:
    for path, text in course_figures.files().items():
        assert path.read_text() == text, "run `make tables`"
        assert f"]({path.name})" in (path.parent / "chapter.md").read_text(), path
    found = {path for path in chapter.HOME.glob("*/figure_*.svg")}
    assert found == set(course_figures.files())


def test_the_index_has_every_document() -> None:
    index = (tables.ROOT / "docs" / "README.md").read_text()
    others = [path.name for path in (tables.ROOT / "docs").glob("*.md") if path.name != "README.md"]
    assert [name for name in sorted(others) if f"]({name})" not in index] == []


def test_every_environment_variable_is_documented() -> None:
    sources = "".join(p.read_text() for p in (ROOT / "src").rglob("*.py"))
    page = (ROOT / "docs" / "cli.md").read_text()
    read = re.findall(r"environ(?:\.get\(|\[)[\"'](\w+)", sources)
    assert {"WEFT_CACHE_DIR", "WEFT_THREADS"} <= set(read)
    assert [name for name in sorted(set(read)) if f"`{name}`" not in page] == []
    listed = re.findall(r"^\| `(WEFT_\w+)` \|", page, re.MULTILINE)
    own = set(re.findall(r"\bWEFT_[A-Z_]+\b", sources))
    for path in (ROOT / "src" / "weft" / "frontends" / "program" / "shim").rglob("*.*"):
        own |= set(re.findall(r'"(WEFT_[A-Z_]+)"', path.read_text()))
    assert sorted(listed) == sorted(own)


def test_the_workflow_can_be_read() -> None:
    yaml = pytest.importorskip("yaml")
    text = (tables.ROOT / "docs" / "ci.md").read_text()
    workflow = yaml.safe_load(re.search(r"```yaml\n(.*?)```", text, re.DOTALL)[1])
    steps = workflow["jobs"]["simulated"]["steps"]
    assert all(len({"run", "uses"} & set(step)) == 1 for step in steps)
    assert steps[-1]["run"] == "pytest --weft-device=sim"


def test_survey_is_covered() -> None:
    lines = tables.SURVEY.read_text().splitlines()
    opcodes = [line.split()[0] for line in lines if not line.startswith("#")]
    assert [o for o in opcodes if not tables.coverage.covered(o)] == []


def test_blocks_are_found() -> None:
    text = "```python\n1\n```\n```text\nout\n```\n```sh\nmake\n```\n```sh run\nls\n```\n"
    found = examples.examples(text)
    assert [(e.kind, e.output is not None) for e in found] == [("python", True), ("sh run", False)]


def test_examples_leave_the_process_as_it_was(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    code = """```python file=beside.py
x = 7
```
```python
import os, sys, warnings
from beside import x
os.environ["MINE"] = "1"
from weft import progress
progress.enabled = True
warnings.warn("not an error")
print(x)
```
```text
7
```
```sh run
weft isa add.s64 | head -1
weft isa add.s64 > page.txt
cut -d " " -f 1 page.txt | head -1
```
```text
add.s64 is covered by this row:
add.s64
```
"""
    page.write_text(code)
    before = Path.cwd(), dict(os.environ), list(sys.path), list(sys.argv)
    assert examples.refreshed(page) == code
    assert (Path.cwd(), dict(os.environ), list(sys.path), list(sys.argv)) == before
    assert "beside" not in sys.modules and not progress.enabled


@pytest.mark.parametrize(
    ("block", "says"),
    [
        ("```python\n1 / 0\n```\n", "page.md:2: division by zero"),
        ("```sh run\nfalse\n```\n", "page.md:2: exit code 1"),
        ("```sh run\nweft isa add.s99\n```\n", "page.md:2: exit code 1: "),
    ],
    ids=["python", "shell", "weft"],
)
def test_an_example_that_fails_is_named(block: str, says: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(block)
    with pytest.raises(RuntimeError, match=f"an example of page.md failed: {says}"):
        examples.refreshed(page)


def test_addresses_and_times_are_not_compared() -> None:
    assert examples.stable("at 0x7fff1234 in 1.5 ms ") == examples.stable("at 0x55aa9876 in 20 ms")


def test_speed_is_of_the_newest_whole_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = {
        "name": "transpose 2048",
        "times": {name: {"cpu_median": 0.002} for name in ("weft 1", "c++ transpose")},
        "against": {"weft": {"transpose": 0.9}},
        "two_cores": {"weft": 1.8},
    }
    run = {
        "when": "2026-01-02T03:04:05+00:00",
        "machine": {"cpu": "some CPU", "architecture": "some", "cores": 2, "load": 0.1},
        "quick": False,
        "cases": [case],
        "targets": [{"name": "C++, one core", "value": 0.9, "limit": 0.8, "met": True}],
    }
    records = tmp_path / "sim_speed.jsonl"
    records.write_text("".join(json.dumps({**run, "quick": quick}) + "\n" for quick in (0, 1)))
    monkeypatch.setattr(tables, "RECORDS", records)
    text = tables.speed_table()
    assert "| transpose 2048 | 2.0 | 2.0 | 0.90 | 1.80 |" in text
    assert "| C++, one core | 0.90 x | 0.80 x | reached |" in text
