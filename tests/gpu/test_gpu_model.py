"""`weft profile model.py --device gpu`: times of a PyTorch script on a real GPU."""

from __future__ import annotations

import json
from typing import Any

import pytest

from commands import run_weft

pytestmark = pytest.mark.gpu

SCRIPT = """\
import torch
from torch import nn
import weft

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(1024, 4096)
        self.second = nn.Linear(4096, 1024)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))

torch.backends.cuda.matmul.allow_tf32 = False
net = Net().to("cuda")
x = torch.randn(2048, 1024, device="cuda")
net(x).square().mean().backward()
compiled = torch.compile(lambda a: torch.softmax(a * 2, -1).sum(0))
compiled(x)
twice = weft.cuda("__global__ void twice(float* x) { x[blockIdx.x * 256 + threadIdx.x] *= 2; }")
twice.twice[2048 * 4, 256](x)
torch.ones(4).sum()  # on the CPU: no row
"""


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("model")
    (folder / "net.py").write_text(SCRIPT)
    command = ["profile", "net.py", "--device", "gpu", "--json", "--trace", "trace.json"]
    done = run_weft(*command, folder=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["model"], json.loads((folder / "trace.json").read_text())


def line(text: str) -> str:
    return f"net.py:{SCRIPT[: SCRIPT.index(text)].count(chr(10)) + 1}"


def rows(data: Any, name: str) -> list[Any]:
    return [r for r in data["rows"] if r["name"] == name]


def test_products_by_module_and_node(profiled: Any) -> None:
    data, _ = profiled
    forward = {r["place"]["module"]: r for r in rows(data, "aten::addmm")}
    backward = {r["place"]["module"]: r for r in rows(data, "aten::mm")}
    assert forward.keys() == backward.keys() == {"Net.first", "Net.second"}
    for row in (*forward.values(), *backward.values()):
        # A product of float32 cannot be faster than the peak, and is not a tenth of it.
        assert row["seconds"] < row["measured"] < 10 * row["seconds"]
        assert row["kernels"] and row["place"]["line"] == line("self.second(")
    assert all(r["place"]["node"] == "AddmmBackward0" for r in backward.values())


def test_kernels_of_weft_and_of_torch_compile(profiled: Any) -> None:
    data, _ = profiled
    (twice,) = rows(data, "twice")
    assert twice["place"]["line"] == line("twice.twice[") and 0 < twice["measured"] < 1e-3
    fused = [r for r in data["rows"] if r["name"].startswith("triton_")]
    assert fused and all(r["kernel"] and r["measured"] for r in fused)
    assert {r["place"]["line"] for r in fused} == {line("compiled = torch")}
    assert data["peak"] > 2048 * 4096 * 4


def test_trace_has_the_times_of_the_gpu(profiled: Any) -> None:
    data, trace = profiled
    streams = [e for e in trace["traceEvents"] if str(e.get("tid", "")).startswith("stream")]
    assert sum(e["dur"] for e in streams) == pytest.approx(
        sum(r["measured"] for r in data["rows"]) * 1e6
    )
    assert min(e["ts"] for e in streams) == 0
