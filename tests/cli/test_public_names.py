"""The public names: each resolves, deprecated ones warn, and `import weft` stays light."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import weft
from folders import ROOT


@pytest.mark.parametrize("name", weft.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(weft, name) is not None
    assert name in dir(weft)


@pytest.mark.parametrize("name", ["empty", "filled"])
def test_names_of_the_sanitizer_have_moved(name: str) -> None:
    with pytest.warns(DeprecationWarning, match=rf"weft\.{name} is deprecated.*use weft\.sanit"):
        moved = getattr(weft, name)
    assert moved is getattr(weft.sanitizer, name)
    assert name not in weft.__all__


def test_names_of_the_sanitizer() -> None:
    y = weft.sanitizer.empty(4)
    with weft.sanitizer.sanitize(raises=False) as report:
        weft.cuda("__global__ void k(float* y) { y[0] += 1; }").k[1, 1](y)
    assert isinstance(report, weft.sanitizer.Report)
    (finding,) = report.findings
    assert isinstance(finding, weft.sanitizer.Finding) and finding.kind == "uninitialised"
    assert all(isinstance(a, weft.sanitizer.Access) for a in finding.accesses)
    with pytest.raises(AttributeError, match="no attribute 'fill'"):
        weft.sanitizer.fill  # type: ignore[attr-defined]  # noqa: B018


def test_results_are_of_the_exported_types() -> None:
    module = weft.cuda("__global__ void k(float* x) { x[threadIdx.x] *= 2; }")
    x = np.ones(32, np.float32)
    profile = weft.profile(module.k[1, 32], x)
    assert isinstance(profile, weft.Profile) and isinstance(profile.roofline, weft.Roofline)
    assert all(isinstance(s, weft.Section) for s in profile.sections)
    assert all(isinstance(a, weft.Advice) for a in profile.advice)
    assert isinstance(profile.compare(profile), weft.Changes)
    assert isinstance(profile.predicted, weft.Prediction)
    assert all(isinstance(line, weft.LineStalls) for line in profile.predicted.stalls)
    assert isinstance(weft.bench({"f": lambda: None}, device="sim"), weft.Bench)
    report = weft.check(module.k[1, 32], x, out=x, reference=lambda x: 2 * x)
    assert isinstance(report, weft.Report)
    assert all(isinstance(v, weft.Verdict) for v in report.trials)


def test_climb_from_python(tmp_path: Path) -> None:
    titles: list[str] = []
    record = tmp_path / "climbs.jsonl"
    result = weft.climb("vecadd", to=1, device="sim:t4", record=record, progress=titles.append)
    assert isinstance(result, weft.Climb) and result.right and result.device == "sim:t4"
    assert all(isinstance(r, weft.RungResult) for r in result.rungs)
    assert sorted(titles) == [r.title for r in result.rungs] == ["00 one thread", "01 one block"]
    assert weft.Climb.load(record).rungs == result.rungs
    assert "01 one block" in str(result) and "✓ right" in str(result)
    result.save(tmp_path / "page.html")
    assert "01 one block" in (tmp_path / "page.html").read_text()
    result.save(record)
    assert len(record.read_text().splitlines()) == 2
    with pytest.raises(weft.ArgumentError, match="no such rung to stop at"):
        weft.climb("vecadd", to=99)


def test_import_is_light() -> None:
    code = "import sys, weft; print(*sorted({'numpy', 'rich', 'typer'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_type_checkers_see_typos_and_signatures(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api")
    lines = {
        "weft.chek(1)": 'no attribute "chek"',
        "weft.ops.sofmax(x)": 'no attribute "sofmax"',
        "y: torch.Tensor = weft.ops.softmax(x, dim=-1)": "",
        "weft.ops.softmax(x, dmi=1)": 'Unexpected keyword argument "dmi"',
        'weft.cuda("").k.as_op("a::b", grdi=3)': 'Unexpected keyword argument "grdi"',
        'weft.as_op(print, "a::b", grid=3, block=32)': "",
    }
    head = ["import torch", "import weft", "x = torch.ones(3)"]
    file = tmp_path / "user.py"
    file.write_text("\n".join([*head, *lines]))
    # With the settings of `make check`, whose cache it uses.
    options = [
        "--config-file",
        str(ROOT / "pyproject.toml"),
        "--cache-dir",
        str(ROOT / ".mypy_cache"),
    ]
    told = [line for line in api.run([*options, str(file)])[0].splitlines() if ": error: " in line]
    for number, (line, error) in enumerate(lines.items(), len(head) + 1):
        here = [t for t in told if f"{file.name}:{number}: " in t]
        assert len(here) == bool(error) and all(error in t for t in here), (line, told)


def test_stubs_of_the_ops_are_current() -> None:
    pytest.importorskip("torch")
    sys.path.insert(0, str(ROOT / "scripts"))
    import op_stubs

    assert op_stubs.FILE.read_text("utf-8") == op_stubs.text(), "run `make tables`"
