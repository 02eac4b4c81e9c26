"""`weft profile` of a PyTorch script: what each operation costs, and where it comes from."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import weft
from limits import PROCESS_SECONDS
from weft.frontends.pytorch.calls import Call, Place, grouped
from weft.report import model

SCRIPT = """\
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 128)
        self.parts = nn.Sequential(nn.Linear(128, 128), nn.GELU(), nn.Linear(128, 1))

    def forward(self, x):
        x = self.first(x).relu()
        return checkpoint(self.parts, x, use_reentrant=False)

net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
x = torch.randn(256, 64, device="cuda")
net(x).square().mean().backward()
optimizer.step()
with torch.cuda.nvtx.range("evaluate"), torch.no_grad():
    torch.cuda.nvtx.range_push("clip")
    x.clamp_(0, 1)
    torch.cuda.nvtx.range_pop()
    net.first(x)
"""


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Any:
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("model")
    (folder / "net.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-m", "weft", "profile", "net.py", "--json", "--trace", "trace.json"],
        cwd=folder, text=True, capture_output=True, timeout=PROCESS_SECONDS,
        env={**os.environ, "PYTHONPATH": str(Path(weft.__file__).parents[1])},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["model"], json.loads((folder / "trace.json").read_text())


def row(data: Any, name: str, module: str, node: str = "") -> Any:
    wanted = {"module": module, "node": node}
    (only,) = (
        r for r in data["rows"] if r["name"] == name and wanted.items() <= r["place"].items()
    )
    return only


def test_operations_by_nvtx_range(profiled: Any) -> None:
    data, _ = profiled
    assert row(data, "aten::clamp_", "evaluate > clip")["calls"] == 1
    assert row(data, "aten::addmm", "evaluate > Net.first")["calls"] == 1


def test_operations_by_module_line_and_node(profiled: Any) -> None:
    data, _ = profiled
    forward = row(data, "aten::addmm", "Net.first")
    assert forward["flops"] == 2 * 256 * 64 * 128 and forward["library"]
    assert forward["bytes"] == 4 * (256 * 64 + 64 * 128 + 128 + 256 * 128)
    assert forward["allocated"] == 4 * 256 * 128
    assert forward["place"]["line"] == "net.py:12"
    backward = row(data, "aten::mm", "Net.first", "AddmmBackward0")
    assert backward["flops"] == forward["flops"] and backward["place"]["line"] == "net.py:12"
    again = [r for r in data["rows"] if "recomputed" in r["place"]["node"]]
    assert {r["place"]["module"] for r in again} == {"Net.parts.0", "Net.parts.1"}
    assert any(r["place"]["module"] == "SGD.step" for r in data["rows"])
    assert data["peak"] > 4 * 256 * 128 * 3
    assert data["next"].startswith("compile.")


def test_trace_has_every_operation_in_order(profiled: Any) -> None:
    data, trace = profiled
    events = [e for e in trace["traceEvents"] if e.get("tid") == "operations"]
    assert len(events) == sum(r["calls"] for r in data["rows"])
    assert all(a["ts"] <= b["ts"] for a, b in itertools.pairwise(events))
    assert any(e["ph"] == "C" and e["args"]["bytes"] > 0 for e in trace["traceEvents"])


def call(name: str, seconds: float, **kind: bool) -> Call:
    return Call(name, Place("Net", "net.py:1"), 1.0, 1.0, 0, 0, seconds, **kind)


STEPS = {
    "many small launches": ([call("aten::add", 1e-7)] * 10, "compile."),
    "one kernel": ([call("k", 1e-3, kernel=True), call("aten::add", 1e-4)], "Triton."),
    "memory": ([call("aten::mm", 6e-4, library=True), call("aten::add", 4e-4)], "fuse."),
    "products": ([call("aten::mm", 9e-4, library=True), call("aten::add", 1e-4)], "CUDA."),
}


@pytest.mark.parametrize(("calls", "step"), STEPS.values(), ids=STEPS.keys())
def test_next_step(calls: list[Call], step: str) -> None:
    assert model.next_step(grouped(calls)).startswith(step)
