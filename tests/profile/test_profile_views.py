"""The views of a profile: sections, roofline, cliffs, text, records, differences, verb."""

from __future__ import annotations

import copy
import json
import pickle
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import weft
from limits import PROCESS_SECONDS
from weft.cli import app
from weft.device import models
from weft.device.occupancy import occupancy
from weft.measure.profile import floor
from weft.measure.profile.cliffs import cliffs, curves
from weft.measure.profile.roofline import roofline
from weft.report import text
from weft.values.profile import LaunchShape

pytestmark = pytest.mark.sim

SOURCE = r"""
__global__ void saxpy(float a, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}
__global__ void reversed(const float* x, float* y) {
    __shared__ float s[256];
    s[threadIdx.x * 2 % 256] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = s[255 - threadIdx.x];
}
"""
N = 1000


@pytest.fixture(scope="module")
def module() -> weft.CudaModule:
    return weft.cuda(SOURCE)


@pytest.fixture(scope="module")
def saxpy(module: weft.Module) -> weft.Profile:
    x, y = np.ones(N, np.float32), np.ones(N, np.float32)
    return weft.profile(module.saxpy[4, 256], 2.0, x, y, N)


def _value(p: weft.Profile, label: str) -> float | str:
    return next(m.value for s in p.sections for m in s.metrics if m.label == label)


# ---- parts that are computed when they are read --------------------------------------------------
def test_parts_that_are_read_late_describe_their_own_launch(module: weft.Module) -> None:
    def counted(n: int) -> weft.Profile:
        x, y = np.ones(N, np.float32), np.ones(N, np.float32)
        return weft.profile(module.saxpy[4, 256], 2.0, x, y, n)

    read_at_once = counted(N).to_dict()
    late, copied = counted(N), copy.copy(counted(N))
    pickled = pickle.loads(pickle.dumps(counted(N)))
    other = counted(N // 2).to_dict()  # runs in the same memory
    assert read_at_once["totals"] != other["totals"]
    assert late == copied == pickled
    assert late.to_dict() == copied.to_dict() == pickled.to_dict() == read_at_once


# ---- sections ------------------------------------------------------------------------------------
def test_sections_have_the_names_of_ncu(saxpy: weft.Profile) -> None:
    assert [s.name for s in saxpy.sections] == [
        "GPU Speed Of Light Throughput",
        "Compute Workload Analysis",
        "Memory Workload Analysis",
        "Launch Statistics",
        "Occupancy",
        "Source Counters",
    ]
    assert all(m.id.startswith("sim:") for s in saxpy.sections for m in s.metrics)


@pytest.mark.parametrize(
    ("label", "value"),
    [
        ("Grid Size (blocks)", 4),
        ("Block Size (threads)", 256),
        ("Global loads: requests", 64),
        ("Global loads: sectors", 250),
        ("Operations: fp32", 2 * N),
        ("Branch Instructions", 32),
        ("Divergent Branches", 1),
        ("Theoretical Occupancy", 100),
        ("Global bytes asked for", 12 * N),
    ],
)
def test_numbers_that_can_be_counted_by_hand(saxpy: weft.Profile, label: str, value: int) -> None:
    assert _value(saxpy, label) == value


def test_modelled_numbers_are_marked(saxpy: weft.Profile) -> None:
    marked = {m.label for s in saxpy.sections for m in s.metrics if m.modelled}
    assert {"L1 hit rate", "DRAM bytes read", "Memory Throughput"} <= marked
    assert "Global loads: sectors" not in marked


# ---- roofline ------------------------------------------------------------------------------------
def test_roofline_of_saxpy(saxpy: weft.Profile) -> None:
    r = saxpy.roofline
    assert r.operations == 2 * N and r.uses == ("fp32",)
    l2 = next(level for level in r.levels if level.name == "L2")
    assert l2.intensity == pytest.approx(2 * N / (12 * N), rel=0.02)
    assert l2.allows == pytest.approx(l2.intensity * 32 * 132 * 1.98e9)
    assert r.peak == pytest.approx(66.9e12, rel=0.05), "a multiply-add counts as two"
    assert r.floor <= r.bound_seconds


def test_a_slower_gpu_takes_longer(saxpy: weft.Profile) -> None:
    times = [roofline(saxpy, models.get(g)).bound_seconds for g in ("h200", "rtx3070", "t4")]
    assert times == sorted(times) and times[0] < times[2]


def test_units_are_sorted_by_time(saxpy: weft.Profile) -> None:
    found = floor.units(saxpy, models.get("h200"))
    assert [u.seconds for u in found] == sorted((u.seconds for u in found), reverse=True)
    assert floor.gain(found, {}) == 1.0


# ---- occupancy -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("registers", "shared", "threads", "said"),
    [
        (42, 0, 256, "2 registers a thread fewer would give 6 blocks"),
        (129, 0, 256, "1 register a thread fewer would give 2 blocks"),
        (32, 0, 256, None),
        (16, 60_000, 256, "2,656 bytes of shared memory fewer would give 4 blocks"),
        (16, 0, 32, "blocks of 64 threads would give 32 blocks"),
    ],
)
def test_the_next_cliff(registers: int, shared: int, threads: int, said: str | None) -> None:
    shape = LaunchShape("k", (1000, 1, 1), (threads, 1, 1), shared, 0, registers)
    found = [str(c) for c in cliffs(shape, models.get("h200"))]
    assert found == ([] if said is None else [said])


def test_cliffs_are_the_nearest() -> None:
    """One step less than a cliff says changes nothing."""
    gpu = models.get("rtx3070")
    for registers in range(33, 255, 7):
        shape = LaunchShape("k", (1000, 1, 1), (128, 1, 1), 0, 0, registers)
        for c in cliffs(shape, gpu):
            now, at, before = (
                occupancy(gpu, threads=128, registers=r, shared_bytes=0).warps
                for r in (registers, c.to, c.to + 1)
            )
            assert at == c.warps > now == before


def test_curves_pass_through_the_launch(saxpy: weft.Profile) -> None:
    found = {c.resource: c for c in curves(saxpy.launch, models.get("h200"))}
    assert set(found) == {"registers", "shared memory", "block size"}
    assert (256, 8, 64) in found["block size"].points


# ---- text and records ----------------------------------------------------------------------------
def test_text_fits_a_terminal_and_names_lines(saxpy: weft.Profile) -> None:
    said = str(saxpy)
    assert max(map(len, said.splitlines())) <= 100
    assert re.search(r"^ +5 .* y\[i\] = a \* x\[i\] \+ y\[i\];$", said, re.MULTILINE)
    assert said.startswith("saxpy  grid 4, block 256\n")


def test_a_record_gives_the_profile_back(saxpy: weft.Profile, tmp_path: Path) -> None:
    saxpy.save(tmp_path / "p.json")
    (back,) = weft.Profile.load(tmp_path / "p.json")
    assert back == saxpy and back.advice == saxpy.advice


@pytest.mark.parametrize(
    "content", ["", "{}", '{"format": "else"}', '{"format": "weft profile 1"}']
)
def test_what_is_no_record_says_so(tmp_path: Path, content: str) -> None:
    (tmp_path / "p.json").write_text(content)
    with pytest.raises(weft.Error, match="not a record of profiles"):
        weft.Profile.load(tmp_path / "p.json")


def test_samples_are_the_addresses(saxpy: weft.Profile) -> None:
    index = next(i.index for i in saxpy.instructions if i.opcode.startswith("ld.global"))
    last = [s for s in saxpy.samples if s.instruction == index and s.block == 3 and s.warp == 3]
    assert (
        last[0].place == "x" and last[0].offsets[0] == (3 * 256 + 96) * 4 + last[0].offsets[0] % 16
    )
    assert None not in last[0].offsets
    assert {s.block for s in saxpy.samples} == {0, 3}


def test_a_chosen_block_is_sampled(module: weft.Module) -> None:
    x, y = np.ones(N, np.float32), np.ones(N, np.float32)
    p = weft.profile(module.saxpy[4, 256], 2.0, x, y, N, block=2)
    assert {s.block for s in p.samples} == {2}


def test_shared_addresses_start_at_zero(module: weft.Module) -> None:
    p = weft.profile(module.reversed[1, 256], np.ones(256, np.float32), np.ones(256, np.float32))
    near = [s for s in p.samples if s.place == "shared" and s.warp == 0]
    assert [s.offsets[:3] for s in near] == [(0, 8, 16), (1020, 1016, 1012)]


# ---- differences ---------------------------------------------------------------------------------
def test_differences_by_counter_and_line(module: weft.Module, saxpy: weft.Profile) -> None:
    other = weft.cuda(SOURCE.replace("a * x[i] + y[i]", "a * x[i * 2 % n] + y[i]")).saxpy
    x, y = np.ones(N, np.float32), np.ones(N, np.float32)
    changes = saxpy.compare(weft.profile(other[4, 256], 2.0, x, y, N))
    rows = {row.what: row for _, rows in changes.sections for row in rows}
    sectors = rows["Global loads: sectors"]
    assert sectors.before == 250 and sectors.after is not None and sectors.after > 300
    assert {line.quote for line in changes.lines} == {
        "y[i] = a * x[i] + y[i];",
        "y[i] = a * x[i * 2 % n] + y[i];",
    }
    said = "\n".join(line for line, _ in text.differences(changes))
    assert "-     5  y[i] = a * x[i] + y[i];" in said


def test_a_profile_does_not_differ_from_itself(saxpy: weft.Profile) -> None:
    assert [line for line, _ in text.differences(saxpy.compare(saxpy))][-1] == "Nothing changed."


# ---- what is profiled ----------------------------------------------------------------------------
def test_a_callable_that_launches_one_kernel(module: weft.Module) -> None:
    x, y = np.ones(N, np.float32), np.ones(N, np.float32)

    def twice() -> None:
        for _ in range(2):
            module.saxpy[4, 256](2.0, x, y, N)

    p = weft.profile(twice)
    assert p.launches == 2 and p.totals["sim:ptx__ops_fp32.sum"] == 4 * N
    with pytest.raises(weft.LaunchError, match="launches one kernel"):
        weft.profile(lambda: None)


def test_a_model_that_cannot_run_the_launch_names_the_limit(module: weft.Module) -> None:
    x = np.ones(256, np.float32)
    with pytest.raises(weft.LaunchError, match="more shared memory than a block may have on Tesla"):
        weft.profile(module.reversed[1, 256, 70_000], x, x.copy(), device="sim:t4")


# ---- the verb ------------------------------------------------------------------------------------
SCRIPT = f"""
import numpy as np, weft
m = weft.cuda(r'''{SOURCE}''')
x, y = np.ones({N}, np.float32), np.ones({N}, np.float32)
for _ in range(3):
    m.saxpy[4, 256](2.0, x, y, {N})
m.reversed[1, 256](x, y)
print("the script's own words")
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("views") / "script.py"
    path.write_text(SCRIPT)
    return str(path)


def _here(*args: str) -> tuple[int, str, str]:
    """The verb in this process, where it runs no script."""
    done = CliRunner().invoke(app, ["profile", *args])
    return done.exit_code, done.stdout, done.stderr


def _weft(*args: str) -> tuple[int, str, str]:
    """In a process of its own: a script changes the one that it runs in."""
    command = [sys.executable, "-m", "weft", "profile", *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PROCESS_SECONDS)
    return done.returncode, done.stdout, done.stderr


def test_the_verb_shows_every_kernel(script: str, tmp_path: Path) -> None:
    code, out, _ = _weft(script, "--html", str(tmp_path / "p.html"))
    assert code == 0
    assert "saxpy  grid 4, block 256\n3 launches together" in out
    assert "reversed  grid 1, block 256" in out
    assert "reversed" in (tmp_path / "p.html").read_text()


def test_the_verb_chooses_kernel_and_launch(script: str) -> None:
    code, out, _ = _weft(script, "--kernel", "saxpy", "--launch", "1", "--json")
    (only,) = json.loads(out)["profiles"]
    assert code == 0 and only["launch"]["kernel"] == "saxpy" and only["launches"] == 1
    code, _, err = _weft(script, "--kernel", "nosuch")
    assert code == 1 and "launches of saxpy (3 x), reversed (1 x)" in err


def test_the_verb_compares_records(saxpy: weft.Profile, tmp_path: Path) -> None:
    slower = replace(saxpy, gpu="t4")
    saxpy.save(tmp_path / "a.json")
    slower.save(tmp_path / "b.json")
    code, out, _ = _here(str(tmp_path / "a.json"), str(tmp_path / "b.json"))
    assert code == 0 and "Least time of the launch" in out
    code, out, _ = _here(str(tmp_path / "a.json"), str(tmp_path / "b.json"), "--json")
    assert code == 0 and json.loads(out)[0]["sections"]
    target = tmp_path / "changes.html"
    code, out, _ = _here(str(tmp_path / "a.json"), str(tmp_path / "b.json"), "--html", str(target))
    assert code == 0 and f"wrote {target}" in out
    assert "<td>Least time of the launch</td>" in target.read_text()


def test_a_fault_gives_the_fault_and_no_report(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text(SCRIPT.replace(f"2.0, x, y, {N})", f"2.0, x, y[:10], {N})"))
    code, out, err = _weft(str(bad), "--html", str(tmp_path / "p.html"))
    assert code == 1 and "GPU Speed Of Light" not in out and "out-of-bounds" in err
    assert not (tmp_path / "p.html").exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("x.txt",), "cannot run a file of this type"),
        (("nosuch.json",), "cannot read the record"),
        (("x.py", "--device", "sim:rtx9"), "no such device"),
    ],
)
def test_mistakes_are_explained(args: tuple[str, ...], said: str) -> None:
    code, _, err = _here(*args)
    assert code == 1 and said in err


# ---- other front ends ----------------------------------------------------------------------------
def test_a_triton_kernel_has_views() -> None:
    torch, triton = pytest.importorskip("torch"), pytest.importorskip("triton")
    from profiled_triton import add

    x = torch.ones(4096)
    y = torch.empty_like(x)
    p = weft.profile(weft.kernel(add)[(4,)], x, x, y, 4096, BLOCK=1024)
    assert triton.__version__ and torch.equal(y, 2 * x)
    assert p.totals["sim:ptx__ops_fp32.sum"] == 4096 and p.launch.registers
    assert any("tl.load" in line.quote for line in p.lines)


def test_a_numba_kernel_has_views() -> None:
    cuda = pytest.importorskip("numba.cuda")

    def double(x):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < x.size:
            x[i] *= 2

    p = weft.profile(weft.kernel(double)[4, 256], np.ones(1000, np.float32))
    assert _value(p, "Divergent Branches") == 1 and p.sources
    assert any("x[i] *= 2" in line.quote for line in p.lines)


PROGRAM = r"""
#include <cstdlib>
__global__ void twice(float* x) {
    x[blockIdx.x * blockDim.x + threadIdx.x] *= 2;
}
int main() {
    float* x;
    cudaMalloc(&x, 4096);
    for (int i = 0; i < 3; i++) twice<<<4, 256>>>(x);
    cudaDeviceSynchronize();
    exit(0);  // profiles are written wherever a program ends
}
"""


def test_a_program_that_goes_on_after_a_fault_has_no_report(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    call = f"    m.saxpy[4, 256](2.0, x, y, {N})"
    caught = f"    try: m.saxpy[4, 256](2.0, x, y[:10], {N})\n    except weft.IllegalAddress: pass"
    bad.write_text(SCRIPT.replace(call, caught))
    code, out, err = _weft(str(bad))
    assert code == 1 and "a kernel failed" in err and "GPU Speed Of Light" not in out


def test_a_whole_program_has_views(tmp_path: Path) -> None:
    from weft.source import toolkit

    try:
        toolkit.find()
    except weft.MissingDependency as missing:
        pytest.skip(str(missing))
    path = tmp_path / "twice.cu"
    path.write_text(PROGRAM)
    code, out, _ = _weft(str(path), "--json")
    (only,) = json.loads(out)["profiles"]
    assert code == 0 and only["launches"] == 3 and only["launch"]["kernel"] == "twice"
    assert only["totals"]["sim:ptx__ops_fp32.sum"] == 3 * 1024
    assert only["launch"]["registers"] and str(path) in only["sources"]


def test_a_profile_is_saved_as_a_page_or_a_record(saxpy: weft.Profile, tmp_path: Path) -> None:
    with pytest.raises(weft.Error) as refused:
        saxpy.save(tmp_path / "x.pdf")
    assert refused.value.allowed == ".html (a page), .json (a record)"
    assert 'p.save("x.html")' in refused.value.next and not list(tmp_path.iterdir())
