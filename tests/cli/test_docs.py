"""The documents: every example runs and prints what is shown, tables are current, links lead."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from folders import ROOT

sys.path.insert(0, str(ROOT / "scripts"))

import examples
import tables

DOCUMENTS = [pytest.param(path, id=path.name) for path in tables.documents()]


@pytest.mark.parametrize("path", DOCUMENTS)
def test_examples_print_what_is_shown(path: Path) -> None:
    assert examples.refreshed(path) == path.read_text(), "run `make tables`"


@pytest.mark.parametrize("path", DOCUMENTS)
def test_tables_are_current(path: Path) -> None:
    assert tables.filled(path.read_text()) == path.read_text(), "run `make tables`"


@pytest.mark.parametrize("path", DOCUMENTS)
def test_links_lead_somewhere(path: Path) -> None:
    prose = re.sub(r"```.*?```|`[^`\n]*`(?!\])", "", path.read_text(), flags=re.DOTALL)
    targets = re.findall(r"\]\((?!https?:)([^)#]+)\)", prose)
    assert [t for t in targets if not (path.parent / t).exists()] == []


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
    assert sorted(listed) == sorted(set(re.findall(r"\bWEFT_[A-Z_]+\b", sources)))


def test_the_workflow_can_be_read() -> None:
    yaml = pytest.importorskip("yaml")
    text = (tables.ROOT / "docs" / "ci.md").read_text()
    workflow = yaml.safe_load(re.search(r"```yaml\n(.*?)```", text, re.DOTALL)[1])
    steps = workflow["jobs"]["simulated"]["steps"]
    assert all(len({"run", "uses"} & set(step)) == 1 for step in steps)
    assert steps[-1]["run"] == "pytest --weft-device=sim"


def test_survey_is_covered_but_for_textures_and_surfaces() -> None:
    lines = tables.SURVEY.read_text().splitlines()
    opcodes = [line.split()[0] for line in lines if not line.startswith("#")]
    missing = {o.split(".")[0] for o in opcodes if not tables.coverage.covered(o)}
    assert missing <= set(tables.NOT_COVERED)


def test_blocks_are_found() -> None:
    text = "```python\n1\n```\n```text\nout\n```\n```sh\nmake\n```\n```sh run\nls\n```\n"
    found = examples.examples(text)
    assert [(e.kind, e.output is not None) for e in found] == [("python", True), ("sh run", False)]


def test_addresses_and_times_are_not_compared() -> None:
    assert examples.stable("at 0x7fff1234 in 1.5 ms ") == examples.stable("at 0x55aa9876 in 20 ms")


def test_speed_is_of_the_newest_whole_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = {
        "name": "transpose 2048",
        "times": {name: {"median": 0.002} for name in ("weft 1", "weft 2", "c++ transpose")},
        "against": {"weft": {"transpose": 0.9}},
        "two_cores": {"weft": 1.8},
    }
    run = {
        "when": "2026-01-02T03:04:05+00:00",
        "machine": {"cpu": "some CPU", "cores": 2, "load": 0.1},
        "quick": False,
        "cases": [case],
        "targets": [{"name": "C++, one core", "value": 0.9, "limit": 0.8, "met": True}],
    }
    records = tmp_path / "sim_speed.jsonl"
    records.write_text("".join(json.dumps({**run, "quick": quick}) + "\n" for quick in (0, 1)))
    monkeypatch.setattr(tables, "RECORDS", records)
    text = tables.speed_table()
    assert "| transpose 2048 | 2.0 | 2.0 | 2.0 | 0.90 | 1.80 |" in text
    assert "| C++, one core | 0.90 x | 0.80 x | reached |" in text
