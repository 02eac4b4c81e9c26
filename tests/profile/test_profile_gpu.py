"""Profiles where there is a real GPU: its time beside the counters, and ncu's table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import weft
from limits import PROCESS_SECONDS
from weft.cli import app
from weft.errors import Error
from weft.measure.profile import ncu
from weft.report import text

SOURCE = """
__global__ void saxpy(float a, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
"""

TABLE = (
    "==PROF== Connected\nthe program's own words\n"
    '"ID","Kernel Name","Block Size","Grid Size","gpu__time_duration.sum",'
    '"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum","dram__bytes_read.sum",'
    '"l1tex__t_sector_hit_rate.pct","lts__t_sector_hit_rate.pct"\n'
    '"","","","","nsecond","sector","byte","%","%"\n'
    '"0","saxpy(float, const float *)","(256, 1, 1)","(4, 1, 1)","2,496","250","8,192","0","n/a"\n'
)


def test_the_table_of_ncu_becomes_sections() -> None:
    (one,) = ncu.read(TABLE)
    assert (one.kernel, one.grid, one.block) == ("saxpy", (4, 1, 1), (256, 1, 1))
    found = {m.label: (m.value, m.unit) for s in one.sections for m in s.metrics}
    assert found["Duration, measured by ncu"] == (pytest.approx(2.496e-6), "s")
    assert found["Global loads: sectors"] == (250, "")
    assert found["L2 hit rate"] == ("n/a", "")
    assert ncu.read("nothing was launched") == []


def test_ncu_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Error, match="ncu is not on PATH"):
        ncu.counters(["true"], None, None)


def test_launches_of_one_shape_are_counted_together() -> None:
    rows = TABLE.splitlines(keepends=True)
    second = rows[-1].replace('"0","saxpy', '"1","void saxpy<float>').replace("2,496", "2,504")
    third = rows[-1].replace("(4, 1, 1)", "(8, 1, 1)")
    same = rows[-1].replace("2,496", "2,504").replace("250", "350")
    found = ncu.merge_launches(ncu.read("".join([*rows, same, second, third])))
    assert [(c.kernel, c.grid[0], c.launches) for c in found] == [
        ("saxpy", 4, 2),
        ("saxpy<float>", 4, 1),
        ("saxpy", 8, 1),
    ]
    values = {m.label: m.value for s in found[0].sections for m in s.metrics}
    assert values["Duration, measured by ncu"] == pytest.approx(2.5e-6), "an average"
    assert values["Global loads: sectors"] == 600, "a sum"
    assert values["L2 hit rate"] == "n/a"


def test_the_simulators_facts_stand_beside_those_of_ncu() -> None:
    x = np.ones(1000, np.float32)
    p = weft.profile(weft.cuda(SOURCE).saxpy[4, 256], 2.0, x, x.copy(), 1000)
    (one,) = ncu.read(TABLE)
    assert ncu.same_launch(one, "weft::saxpy<float>", p.launch.grid, p.launch.block)
    assert not ncu.same_launch(one, "saxpy", (5, 1, 1), p.launch.block)
    rows = {line[:44].strip(): line[44:].split() for line, _ in text.of_ncu(one, p)}
    assert rows["Global loads: sectors"] == ["250", "250"]
    assert rows["Memory Workload Analysis"] == ["ncu", "sim:"]
    assert rows["L2 hit rate"] == ["n/a"], "what the simulator does not know stays empty"
    assert "sim:" not in "".join(line for line, _ in text.of_ncu(one, None))
    assert [line.split() for line, _ in text.others([one])][2] == ["1", "2.5", "µs", "saxpy"]


SCRIPT = f"""
import numpy as np, sys, weft
if "torch" in sys.argv:
    import torch
    x, y = (torch.ones(1000, device="cuda") for _ in range(2))
else:
    x, y = (np.ones(1000, np.float32) for _ in range(2))
for _ in range(2):
    weft.cuda(r'''{SOURCE}''').saxpy[4, 256](2.0, x, y, 1000)
print("the script's own words")
"""


def _weft(path: Path, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path.write_text(SCRIPT)
    command = [sys.executable, "-m", "weft", "profile", str(path), "--device", "gpu", *args]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=PROCESS_SECONDS,
        env={**os.environ, **environment},
    )


def test_without_ncu_the_simulator_counts_and_a_line_says_so(tmp_path: Path) -> None:
    done = _weft(tmp_path / "script.py", "--html", str(tmp_path / "p.html"), PATH="/nowhere")
    note, head, many = done.stdout.splitlines()[:3]
    assert done.returncode == 0 and note.startswith("ncu is not on PATH")
    assert note.endswith("these are the simulator's facts")
    assert head == "saxpy  grid 4, block 256" and many.startswith("2 launches together")
    assert "saxpy" in (tmp_path / "p.html").read_text()


def test_what_it_prints_as_json_is_a_record(tmp_path: Path) -> None:
    done = _weft(tmp_path / "script.py", "--json", PATH="/nowhere")
    (tmp_path / "record.json").write_text(done.stdout)
    (only,) = weft.Profile.load(tmp_path / "record.json")
    assert only.launch.kernel == "saxpy" and json.loads(done.stdout)["ncu"] == []
    assert "the script's own words" in done.stderr


@pytest.mark.parametrize(
    ("name", "more", "said"),
    [
        ("nosuch.py", (), "there is no such file"),
        ("two.py", ("two.py",), "only one file can be profiled on a GPU"),
        ("record.json", (), "only one file can be profiled on a GPU"),
        ("built", (), "ncu is not on PATH"),
    ],
)
def test_mistakes_are_explained(
    name: str, more: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    path = tmp_path / name
    if name != "nosuch.py":
        path.touch()
    done = CliRunner().invoke(app, ["profile", str(path), *more, "--device", "gpu"])
    assert done.exit_code == 1 and said in done.stderr


# ---- where there is a GPU ------------------------------------------------------------------------
@pytest.mark.gpu
def test_a_launch_on_the_gpu_has_its_time_beside_the_counters() -> None:
    torch = pytest.importorskip("torch")
    x, y = (torch.ones(1000, device="cuda") for _ in range(2))
    p = weft.profile(weft.cuda(SOURCE).saxpy[4, 256], 2.0, x, y, 1000)
    assert (y == 3).all(), "launched once on the arrays that were given"
    assert p.measured is not None and 0 < p.measured < 1
    assert p.totals["sim:ptx__ops_fp32.sum"] == 2000 and "measured on the GPU" in str(p)


@pytest.mark.gpu
def test_a_triton_launch_on_the_gpu_has_its_time_beside_the_counters() -> None:
    torch, _ = pytest.importorskip("torch"), pytest.importorskip("triton")
    from profiled_triton import add

    x = torch.ones(4096, device="cuda")
    y = torch.zeros_like(x)
    p = weft.profile(weft.kernel(add)[(4,)], x, x, y, 4096, BLOCK=1024)
    assert (y == 2).all() and p.measured is not None and 0 < p.measured < 1
    assert p.totals["sim:ptx__ops_fp32.sum"] == 4096


@pytest.mark.gpu
def test_ncu_and_the_simulator_agree_in_one_table(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    try:
        ncu.tool()
    except Error as error:
        pytest.skip(str(error))
    done = _weft(tmp_path / "script.py", "--args", "torch", "--kernel", "saxpy", "--json")
    told = json.loads(done.stdout)
    (counted,), (simulated,) = told["ncu"], told["profiles"]
    assert counted["launches"] == simulated["launches"] == 2 and counted["profile"] == 0
    values = {m["label"]: m["value"] for s in counted["sections"] for m in s["metrics"]}
    for op, short in (("loads", "ld"), ("stores", "st")):
        name = f"sim:l1tex__t_sectors_pipe_lsu_mem_global_op_{short}.sum"
        assert values[f"Global {op}: sectors"] == simulated["totals"][name]
    shown = _weft(tmp_path / "script.py", "--args", "torch", "--kernel", "saxpy").stdout
    assert "sim:" in shown and "Duration, measured by ncu" in shown


@pytest.mark.gpu
def test_without_ncu_there_are_times_by_events(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    bare = os.path.dirname(sys.executable)
    if any(Path(folder, "ncu").exists() for folder in (bare, "/bin")):
        pytest.skip("ncu is where Python is")
    done = _weft(tmp_path / "script.py", "--args", "torch", PATH=f"{bare}:/bin")
    assert done.stdout.startswith("ncu is not on PATH") and done.returncode == 0
    assert "measured on the GPU" in done.stdout and "by events" in done.stdout
