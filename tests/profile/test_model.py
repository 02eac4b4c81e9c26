"""`weft profile` of a PyTorch script: what each operation costs, and where it comes from."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from commands import run_weft
from weft.frontends.pytorch import gpu_times
from weft.measure.timeline import operations
from weft.report.model import operations as model
from weft.report.timeline import trace as traces
from weft.values.model import Call, GpuKernel, ModelProfile, Origin, grouped

SCRIPT = """\
import torch
import weft
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

class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2

class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x, image):
        q, k, v = x.chunk(3, -1)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return Double.apply(self.conv(image)).sum() + y.sum()

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
heads = Heads().cuda()
x = torch.randn(2, 4, 32, 48, device="cuda", requires_grad=True)
torch.backends.cuda.matmul.fp32_precision = "ieee"
heads(x, torch.randn(2, 3, 8, 8, device="cuda", requires_grad=True)).backward()
twice = weft.cuda("__global__ void twice(float* x) { x[threadIdx.x] *= 2; }").twice
twice[1, 32](torch.ones(32, device="cuda"))
"""


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Any:
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("model")
    (folder / "net.py").write_text(SCRIPT)
    done = run_weft("profile", "net.py", "--json", "--trace", "trace.json", folder=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["model"], json.loads((folder / "trace.json").read_text())


def row(data: Any, name: str, module: str, node: str = "") -> Any:
    wanted = {"module": module, "node": node}
    (only,) = (
        r for r in data["rows"] if r["name"] == name and wanted.items() <= r["place"].items()
    )
    return only


def line(text: str) -> str:
    return f"net.py:{SCRIPT[: SCRIPT.index(text)].count(chr(10)) + 1}"


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
    assert forward["place"]["line"] == line("self.first(x)")
    backward = row(data, "aten::mm", "Net.first", "AddmmBackward0")
    assert backward["flops"] == forward["flops"] and backward["place"]["line"] == line(
        "self.first(x)"
    )
    again = [r for r in data["rows"] if "recomputed" in r["place"]["node"]]
    assert {r["place"]["module"] for r in again} == {"Net.parts.0", "Net.parts.1"}
    assert any(r["place"]["module"] == "SGD.step" for r in data["rows"])
    assert data["peak"] > 4 * 256 * 128 * 3
    assert data["next"].startswith("compile.")


def test_flops_of_attention_and_convolution(profiled: Any) -> None:
    data, _ = profiled
    forward = row(data, "aten::_scaled_dot_product_flash_attention", "Heads")
    assert forward["flops"] == 2 * (2 * 4) * (32 * 33 / 2) * (16 + 16)  # below the diagonal
    node = "ScaledDotProductFlashAttentionForCpuBackward0"
    backward = row(data, "aten::_scaled_dot_product_flash_attention_backward", "Heads", node)
    assert backward["flops"] == 2.5 * forward["flops"]
    convolution = row(data, "aten::convolution", "Heads.conv")
    assert convolution["flops"] == 2 * (2 * 4 * 6 * 6) * (3 * 3 * 3)
    gradients = row(data, "aten::convolution_backward", "Heads.conv", "ConvolutionBackward0")
    assert gradients["flops"] == 2 * convolution["flops"]


def test_gradients_of_views_and_of_functions_by_their_line(profiled: Any) -> None:
    data, _ = profiled
    split = row(data, "aten::cat", "Heads", "SplitBackward0")
    assert split["place"]["line"] == line("x.chunk")
    double = row(data, "aten::mul", "Heads", "DoubleBackward")
    assert double["place"]["line"] == line("x * 2")


def test_kernels_of_weft(profiled: Any) -> None:
    data, _ = profiled
    kernel = row(data, "twice", "")
    assert kernel["kernel"] and kernel["flops"] == 32
    assert kernel["place"]["line"] == line("twice[1, 32]")


def test_trace_has_every_operation_in_order(profiled: Any) -> None:
    _, trace = profiled
    events = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["cat"] == "kernel"]
    names = [e["name"] for e in events]
    assert {"aten::addmm", "aten::mm", "twice"} <= set(names)
    assert "aten::uniform_" not in names, "parameters are made on the host"
    assert all(a["ts"] <= b["ts"] for a, b in itertools.pairwise(events))
    assert any(e["ph"] == "C" and e["args"]["bytes"] > 0 for e in trace["traceEvents"])


def event(cat: str, name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    thread = args.pop("tid", 1)
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": thread, "ts": ts, "dur": dur,
            "args": args}  # fmt: skip


def test_kernels_of_a_gpu_by_their_marks() -> None:
    """A trace of torch.profiler: a kernel may run long after the call that launched it."""
    mark = gpu_times.PREFIX
    trace = [
        event("cpu_op", f"{mark}1", 10, 10),
        event("cpu_op", f"{mark}2", 30, 40),
        event("cpu_op", f"{mark}3", 35, 10),  # a kernel of its own inside of operation 2
        event("cpu_op", f"{mark}{gpu_times.TUNING}", 80, 10),
        event("cpu_op", f"{mark}4", 82, 2),  # what an autotuner launches
        event("cpu_op", f"{mark}5", 10, 10, tid=2),  # at the time of operation 1
        event("cpu_op", "aten::mm", 11, 8),
        {"ph": "M", "name": "process_name"},
    ]
    launched = [(12, 1), (40, 1), (60, 1), (83, 1), (75, 1), (15, 2), (13, 1)]
    for n, (at, thread) in enumerate(launched):
        trace.append(event("cuda_runtime", "cudaLaunchKernel", at, 1, correlation=n, tid=thread))
        trace.append(event("kernel", f"k{n}", 1000 + 10 * n, 2, correlation=n, tid=7, stream=7))
    trace[-1]["cat"] = "gpu_memcpy"
    times = gpu_times.read({"traceEvents": trace})
    names = {number: [k.name for k in of] for number, of in times.marked.items()}
    assert names == {1: ["k0", "k6"], 3: ["k1"], 2: ["k2"], 5: ["k5"]}
    assert [k.name for k in times.others] == ["k4"]
    assert times.tuning == pytest.approx(2e-6) and times.marked[3][0].stream == 7


MEASURED = [
    Call("aten::mm", Origin("Net", "net.py:1"), 2e9, 1e6, 0, 0, 1e-4, library=True,
         kernels=(GpuKernel("gemm", 5.0, 3e-4), GpuKernel("reduce", 5.0004, 1e-4))),
    Call("aten::add", Origin("Net", "net.py:2"), 1e6, 1e6, 0, 0, 1e-5,
         kernels=(GpuKernel("add", 5.0006, 2e-5, 3),)),
]  # fmt: skip


def test_view_of_measured_times() -> None:
    first = grouped(MEASURED)[0]
    assert first.measured == pytest.approx(4e-4) and first.kernels == ("gemm", "reduce")
    profiled = ModelProfile("net.py", "H200", tuple(MEASURED), 0, 1e-3)
    lines = [text for text, _ in model.view(profiled)]
    assert lines[1] == (
        "420 µs of kernels by CUPTI, floor 110 µs; 1 ms of autotuning not included; peak memory 0 B"
    )
    assert lines[2].split()[:3] == ["share", "time", "floor"]
    assert lines[3].split()[:5] == ["95.2%", "400", "µs", "100", "µs"]
    assert "at 25% of its peak rate" in lines[-1]


def test_trace_of_measured_times() -> None:
    timeline = operations.measured("net.py", "H200", MEASURED)
    assert timeline.clock == "measured" and timeline.overlap == 0
    events = traces.trace(timeline)["traceEvents"]
    lanes = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    on = {
        e["name"]: (e["ts"], e["dur"])
        for e in events
        if e["ph"] == "X" and lanes.get(e["tid"]) == "operations"
    }
    assert on["aten::mm"] == pytest.approx((0, 500)) and on["aten::add"] == pytest.approx((600, 20))
    streams = [e["name"] for e in events if e["ph"] == "X" and lanes.get(e["tid"]) == "stream 3"]
    assert streams == ["add"]


def call(name: str, seconds: float, **kind: Any) -> Call:
    return Call(name, Origin("Net", "net.py:1"), 1.0, 1.0, 0, 0, seconds, **kind)


STEPS = {
    "many small launches": ([call("aten::add", 1e-7)] * 10, "compile."),
    "one kernel": ([call("k", 1e-3, kernel=True), call("aten::add", 1e-4)], "Triton."),
    "memory": ([call("aten::mm", 6e-4, library=True), call("aten::add", 4e-4)], "fuse."),
    "copies from the host": (
        [
            call("aten::_to_copy", 9e-3, kernels=(GpuKernel("Memcpy HtoD (Pageable)", 0.0, 9e-3),)),
            call("aten::mm", 1e-3, library=True, kernels=(GpuKernel("gemm", 0.0, 1e-3),)),
        ],
        "CUDA. aten::mm in Net has 100.0% of the time",
    ),
    "products": ([call("aten::mm", 9e-4, library=True), call("aten::add", 1e-4)], "CUDA."),
}


@pytest.mark.parametrize(("calls", "step"), STEPS.values(), ids=STEPS.keys())
def test_next_step(calls: list[Call], step: str) -> None:
    assert model.next_step(grouped(calls)).startswith(step)
