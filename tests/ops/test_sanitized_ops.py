"""benchmarks/sanitized_ops.py: calls reach all kernels, and errors in weft's alone count."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
LOG = """\
========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in block.
=========     at void keys<__half, (int)128, (bool)1>(const T1 *, T1 *)+0x60 in backward.cuh:4
=========     by thread (31,0,0) in block (7,0,0)
=========
========= Invalid __global__ write of size 4 bytes
=========     at void at::native::vectorized_elementwise_kernel<(int)4>(int)+0x60
=========     by thread (31,0,0) in block (7,0,0)
=========
========= ERROR SUMMARY: 2 errors
"""


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    import sanitized_ops

    return sanitized_ops


def test_calls_reach_all_kernels_of_an_op(
    script: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import ops_calls
    from steering import every_kernel, kernel_of

    out = tmp_path / "calls.json"
    words = ["select", "--ops", "softmax,softmax backward,rows", "--turns", "3", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["ops_calls.py", *words])
    ops_calls.main()
    calls = script.json.loads(out.read_text(encoding="utf-8"))["calls"]
    reached = {kernel_of(*k) for call in calls for k in call["kernels"]}
    wanted = {k for k in every_kernel() if k.startswith("softmax/backward.cu ")}
    assert len(wanted) == 6 and wanted <= reached
    # The kernels that were chosen for a call are those that it launches.
    quick = [c for c in calls if c["case"] == "softmax" and c["most"] == ops_calls.MOST[0]][:1]
    (answer,) = ops_calls.made(quick, "cpu", script.time.monotonic() + 60)
    assert answer["calls"] == 1 and not answer["failed"] and not answer["strayed"]


def test_errors_of_other_kernels_do_not_count(script: Any, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(LOG, encoding="utf-8")
    answer = {
        "calls": 3,
        "left": 0,
        "strayed": 0,
        "failed": {},
        "kernels": [["softmax.cu", "rows<4>"]],
    }
    row = script.row("synccheck", [answer], [log])
    assert row["errors"] == 1 and row["by_kernel"] == {"keys": 1} and row["others"] == 1
    assert "backward.cuh:4" in row["first"]["keys"] and not row["unfinished"]
    assert row["kernels"] == 1 and "softmax.cu rows" not in row["never"]
    assert script.row("synccheck", [], [tmp_path / "missing"])["unfinished"] == 1
