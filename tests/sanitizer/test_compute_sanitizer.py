"""compute-sanitizer's tools: what they print becomes findings; the verb runs them one by one.

The texts are what the tool prints (versions 2023 and later, but where a row says otherwise).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import weft
from folders import TESTS
from weft.frontends import compute_sanitizer
from weft.frontends.compute_sanitizer_text import complete, findings

SOURCE = """\
__global__ void k(int *x) {
    __shared__ int s[64];
    s[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = s[63 - threadIdx.x];
    __syncwarp(1);
}
"""


def quote(file: str, line: int) -> str:
    return SOURCE.splitlines()[line - 1].strip() if file == "p.cu" else ""


@dataclass(frozen=True)
class Row:
    """The output of a tool, and the findings read from it: kind, lines, kernel, number."""

    id: str
    text: str
    kind: str
    lines: tuple[int, ...]
    kernel: str = "k"
    times: int = 1
    says: str = ""


ROWS = [
    Row("out-of-bounds", """\
========= Invalid __global__ write of size 4 bytes
=========     at k(int *)+0xf0 in p.cu:4
=========     by thread (40,0,0) in block (2,1,0)
=========     Access to 0xe9f62ae01fa0 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0xe9f62ae01000 of size 4000 bytes
=========
========= Invalid __global__ write of size 4 bytes
=========     at k(int *)+0xf0 in p.cu:4
=========     by thread (41,0,0) in block (2,1,0)
=========     Access to 0xe9f62ae01fa4 is out of bounds
=========
========= Program hit cudaErrorLaunchFailure (error 719) due to "unspecified launch failure" on \
CUDA API call to cudaDeviceSynchronize.
========= ERROR SUMMARY: 3 errors
""", "out of bounds", (4,), times=2,
        says="write: p.cu:4  `x[threadIdx.x] = s[63 - threadIdx.x];`"
        "  (block (2, 1, 0), thread (40, 0, 0))"),
    Row("misaligned", """\
========= Invalid __shared__ read of size 8 bytes
=========     at ns::k<int>(int *)+0x160 in p.cu:3
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x7f6510c00001 is misaligned
========= ERROR SUMMARY: 1 error
""", "misaligned", (3,), kernel="ns::k<int>", says="at: Address 0x7f6510c00001 is misaligned"),
    Row("version-2022", """\
========= Invalid __shared__ read of size 4 bytes
=========     at 0x578 in /home/user/p.cu:3:k(int *)
=========     by thread (0,0,0) in block (0,0,0)
========= ERROR SUMMARY: 1 error
""", "out of bounds", (3,)),
    Row("no-lineinfo", """\
========= Invalid __global__ read of size 4 bytes
=========     at k(int *)+0x70
=========     by thread (1,0,0) in block (0,0,0)
========= ERROR SUMMARY: 1 error
""", "out of bounds", (0,), says="k: out of bounds: a read of 4 bytes of global memory in k"),
    Row("race", """\
========= Error: Race reported between Write access at k(int *)+0x90 in p.cu:3
=========     and Read access at k(int *)+0xa0 in p.cu:4 [2,048 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
""", "data race", (3, 4), times=2048, says="a thread writes what another reads, in no order in k"),
    Row("uninitialised", """\
========= Uninitialized __global__ memory read of size 4 bytes
=========     at k(int *)+0x70 in p.cu:3
=========     by thread (31,0,0) in block (1,0,0)
=========     Address 0x7f3c7ec000fc
=========
========= ERROR SUMMARY: 1 error
""", "uninitialised", (3,), says="write it first"),
    Row("divergence", """\
========= Barrier error detected. Divergent thread(s) in warp.
=========     at k(int *)+0xb0 in p.cu:4
=========     by thread (19,0,0) in block (0,0,0)
=========
========= ERROR SUMMARY: 1 error
""", "barrier divergence", (4,)),
    Row("in-a-header", """\
========= Barrier error detected. Invalid arguments.
=========     at __syncwarp(unsigned int)+0xe0 in sm_30_intrinsics.hpp:110
=========     by thread (1,0,0) in block (0,0,0)
=========         Device Frame: k(int *)+0xb0 in p.cu:5
=========
========= ERROR SUMMARY: 1 error
""", "missing lanes", (5,), says="p.cu:5  `__syncwarp(1);`, in sm_30_intrinsics.hpp:110"),
    Row("device-heap", """\
========= Malloc/Free error encountered : Double free
=========     at k(int *)+0x79d8 in p.cu:4
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x400aff920
========= ERROR SUMMARY: 1 error
""", "double free", (4,)),
    Row("leak", """\
========= Leaked 4,092 bytes at 0x7b95b4000000
=========
========= LEAK SUMMARY: 4092 bytes leaked in 1 allocations
========= ERROR SUMMARY: 1 error
""", "leak", (0,), kernel="", says="at: 4,092 bytes at 0x7b95b4000000"),
    Row("freed-twice", """\
========= Program hit cudaErrorInvalidValue (error 1) due to "invalid argument" on CUDA API call \
to cudaFree.
========= ERROR SUMMARY: 1 error
""", "double free", (0,), kernel=""),
    Row("call-alone", """\
========= Program hit cudaErrorIllegalAddress (error 700) due to "an illegal memory access was \
encountered" on CUDA API call to cudaDeviceSynchronize.
========= ERROR SUMMARY: 1 error
""", "failed call", (0,), kernel="", says="cudaDeviceSynchronize: host code"),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_report_becomes_a_finding(row: Row) -> None:
    said = f"========= COMPUTE-SANITIZER\nof the program itself\n{row.text}"
    assert complete(said)
    (found,) = findings(said, quote)
    assert (found.kind, found.kernel, found.times) == (row.kind, row.kernel, row.times)
    assert tuple(a.number for a in found.accesses) == row.lines
    assert row.says in str(found)


def test_each_partner_of_a_race_is_a_finding() -> None:
    pair = findings("""\
========= Warning: Race reported between Write access at k(int *)+0x140 in p.cu:3
=========     and Read access at k(int *)+0xe0 in p.cu:4 [4 hazards]
=========     and Write access at k(int *)+0x140 in p.cu:3 [5 hazards]
""")
    assert [(f.accesses[1].verb, f.times) for f in pair] == [("read", 4), ("write", 5)]


def test_nothing_found_is_not_the_same_as_not_looked() -> None:
    clean = "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n"
    assert complete(clean) and not findings(clean)
    assert not complete("========= COMPUTE-SANITIZER\n")


# ---- the verb, with a tool that repeats a recording ---------------------------------------------
REPLAY = """\
#!{python}
import subprocess, sys
arguments = sys.argv[1:]
tool, log = (arguments[arguments.index(name) + 1] for name in ("--tool", "--log-file"))
program = arguments[arguments.index("device") + 1:]
recordings = {recordings!r}
open(log, "w").write("========= COMPUTE-SANITIZER\\n" + recordings.get(tool, recordings[""]))
sys.exit(subprocess.run(program).returncode)
"""
CLEAN = "========= ERROR SUMMARY: 0 errors\n"


def check(
    folder: Path, recordings: dict[str, str], *options: str
) -> subprocess.CompletedProcess[str]:
    tool, script = folder / "tool", folder / "script.py"
    tool.write_text(REPLAY.format(python=sys.executable, recordings=recordings))
    tool.chmod(0o755)
    script.write_text("import sys\nprint('said', sys.argv[1:])\nsys.exit(3)\n")
    command = [sys.executable, "-m", "weft", "check", "--device", "gpu", "--sanitize", *options]
    return subprocess.run(
        [*command, script, "--", "-x"],
        env={**os.environ, compute_sanitizer.VARIABLE: str(tool)},
        capture_output=True,
        text=True,
    )


def test_the_verb_runs_every_tool(tmp_path: Path) -> None:
    race = next(row.text for row in ROWS if row.id == "race")
    leak = next(row.text for row in ROWS if row.id == "leak")
    done = check(tmp_path, {"racecheck": race, "memcheck": leak, "": CLEAN})
    assert done.returncode == 1, done.stderr
    assert done.stdout.count("said ['-x']") == 1  # of the first run only
    assert "data race: a thread writes" in done.stdout and "leak: memory" in done.stdout
    assert "2 found in one run each of compute-sanitizer's memcheck, racecheck" in done.stdout


def test_the_verb_gives_json_and_the_exit_code(tmp_path: Path) -> None:
    done = check(tmp_path, {"": CLEAN}, "--json")
    facts = json.loads(done.stdout)
    assert done.returncode == facts["exit_code"] == 3 and "said" in done.stderr
    assert facts["findings"] == [] and facts["tools"] == list(compute_sanitizer.TOOLS)


def test_a_tool_that_stops_is_an_error(tmp_path: Path) -> None:
    done = check(tmp_path, {"": "========= Error: could not connect\n"})
    assert done.returncode == 1 and "did not come to its end" in done.stderr
    assert "could not connect" in done.stderr


def test_the_tool_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(compute_sanitizer.VARIABLE, "/nowhere")
    with pytest.raises(weft.MissingDependency, match="pip install nvidia-cuda-sanitizer-api"):
        compute_sanitizer.find()


def test_libraries_are_linked_by_the_headers_that_a_program_includes() -> None:
    source = '#include <cublas_v2.h>\n# include "cufft.h"\n#include <cublasXt.h>\n// curand.h\n'
    assert compute_sanitizer.libraries(source) == ["-lcublas", "-lcufft"]
    assert compute_sanitizer.libraries(SOURCE) == []


@pytest.mark.gpu
def test_a_program_on_the_gpu() -> None:
    try:
        compute_sanitizer.find()
    except weft.MissingDependency as missing:
        pytest.skip(missing.what)
    program = TESTS / "programs" / "races.cu"
    code, report = compute_sanitizer.run(str(program), [])
    kinds = {f.kind for f in report.findings}
    race = next(f for f in report.findings if f.kind == "data race")
    assert code == 0 and kinds == {"data race", "leak"}
    assert {a.number for a in race.accesses} == {6, 7} and race.kernel == "shift"
