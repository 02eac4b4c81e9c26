"""`weft profile --trace` of whole programs and scripts: calls, streams, copies, graphs, ranges."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import weft
from commands import run_weft

pytestmark = pytest.mark.sim

PROGRAM = r"""
#include <cstdio>
#include <nvtx3/nvToolsExt.h>
__global__ void add(float *x, float by) { x[blockIdx.x * blockDim.x + threadIdx.x] += by; }
int main() {
    const int n = 1024;
    float *host, *x, *y;
    cudaMallocHost(&host, n * 4), cudaMalloc(&x, n * 4), cudaMalloc(&y, n * 4);
    cudaStream_t one, two;
    cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking), cudaStreamCreate(&two);
    cudaEvent_t copied;
    cudaEventCreate(&copied);
    nvtxRangePushA("copy");
    nvtxRangePushA("inner");
    cudaMemcpyAsync(x, host, n * 4, cudaMemcpyHostToDevice, one);
    nvtxRangePop();
    cudaEventRecord(copied, one);
    nvtxRangePop();
    nvtxRangeId_t whole = nvtxRangeStartA("whole");
    cudaStreamWaitEvent(two, copied, 0);
    add<<<4, 256, 0, two>>>(x, 1.0f);
    cudaMemsetAsync(y, 0, n * 4, one);
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    cudaGraphNode_t first, left, right;
    cudaGraphCreate(&graph, 0);
    float by = 2.0f;
    void *of_x[] = {&x, &by}, *of_y[] = {&y, &by};
    cudaKernelNodeParams p = {(void *)add, dim3(4), dim3(256), 0, of_x, nullptr}, q = p;
    q.kernelParams = of_y;
    cudaGraphAddKernelNode(&first, graph, nullptr, 0, &p);
    cudaGraphAddKernelNode(&left, graph, &first, 1, &p);
    cudaGraphAddKernelNode(&right, graph, &first, 1, &q);
    cudaGraphInstantiate(&ready, graph, 0);
    cudaGraphLaunch(ready, two);
    nvtxRangeEnd(whole);
    nvtxMarkA("launched");
    cudaStreamSynchronize(two);
    cudaMemcpy(host, y, n * 4, cudaMemcpyDeviceToHost);
    printf("%g\n", host[5]);
}
"""
ARRAYS = """
import cupy as cp
import numpy as np
import nvtx
from numba import cuda

@cuda.jit
def scale(x, by):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= by

host = np.arange(1024, dtype=np.float32)
with nvtx.annotate("numba"):
    a = cuda.to_device(host)
    stream = cuda.stream()
    scale[4, 256, stream](a, 2.0)
    stream.synchronize()
    print(a.copy_to_host()[3])
twice = cp.RawKernel(
    'extern "C" __global__ void twice(float* x) { x[blockIdx.x * blockDim.x + threadIdx.x] *= 2; }',
    "twice",
)
cp.cuda.nvtx.RangePush("cupy")
x = cp.asarray(host)
with cp.cuda.Stream(non_blocking=True) as other:
    twice((4,), (256,), (x,))
    y = x + 1
other.synchronize()
cp.cuda.nvtx.RangePop()
print(y.get()[3])
"""
TENSORS = """
import torch
import triton
import triton.language as tl

@triton.jit
def more(x, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)

host = torch.ones(1000)
net = torch.nn.Linear(1000, 4).cuda()
x = host.cuda()
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.nvtx.range("side"), torch.cuda.stream(side):
    more[(8,)](x, 1000, B=128)
    y = net(x)
torch.cuda.synchronize()
print(y.sum().item() > -1e9)
"""


class Traced(NamedTuple):
    """The JSON that a run printed, and the bars of its trace by kind: (name, lane)."""

    data: dict[str, Any]
    bars: dict[str, list[tuple[str, str]]]
    trace: dict[str, Any]
    page: str


def traced(folder: Path, name: str, source: str) -> Traced:
    (folder / name).write_text(source)
    words = ("--json", "--trace", "t.json", "--html", "t.html")
    done = run_weft("profile", name, *words, folder=folder)
    assert done.returncode == 0, done.stderr
    trace = json.loads((folder / "t.json").read_text())
    events = trace["traceEvents"]
    lanes = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    bars: dict[str, list[tuple[str, str]]] = {}
    for e in events:
        if e["ph"] in "Xi" and e["pid"] < 3:
            bars.setdefault(e["cat"], []).append((e["name"], lanes[e["tid"]]))
    return Traced(json.loads(done.stdout)["timeline"], bars, trace, (folder / "t.html").read_text())


def calls(run: Traced) -> dict[str, int]:
    return {row["name"]: row["calls"] for row in run.data["statistics"]["calls"]}


def bar(run: Traced, cat: str, number: int = 0) -> tuple[float, float]:
    """Begin and end of a bar."""
    found = [e for e in run.trace["traceEvents"] if e.get("cat") == cat and e["ph"] == "X"]
    return found[number]["ts"], found[number]["ts"] + found[number]["dur"]


def test_a_whole_program(tmp_path: Path) -> None:
    run = traced(tmp_path, "whole.cu", PROGRAM)
    counted = calls(run)
    assert counted["cudaGraphAddKernelNode"] == 3 and counted["cudaGraphLaunch"] == 1
    assert counted["cudaMalloc"] == 2 and counted["cudaLaunchKernel"] == 1
    assert counted["cudaStreamWaitEvent"] == 1 and "cudaEventCreateWithFlags" not in counted
    assert run.bars["copy"] == [("HtoD", "stream 1"), ("DtoH", "default stream")]
    assert run.bars["fill"] == [("memset", "stream 1")]
    names = [("add", "stream 2")] * 3 + [("add", "stream 2, branch 2")]
    assert run.bars["kernel"] == names and len(run.bars["graph"]) == 1
    ranges = {"NVTX ranges 1": {"copy", "inner"}, "NVTX started ranges 1": {"whole"}}
    assert set(run.bars["range"]) == {(name, lane) for lane in ranges for name in ranges[lane]}
    assert run.bars["mark"] == [("launched", "NVTX ranges 1")]
    # The kernel waits for the copy, by an event; two nodes of the graph run at the same time.
    assert bar(run, "kernel")[0] >= bar(run, "copy")[1] - 1e-6
    assert bar(run, "kernel", 2)[0] == pytest.approx(bar(run, "kernel", 3)[0])
    assert run.data["overlap"] > 0 and run.data["clock"] == "modelled"
    assert "whole.cu" in run.page and "stream 2, branch 2" in run.page


def test_numba_and_cupy(tmp_path: Path) -> None:
    run = traced(tmp_path, "arrays.py", ARRAYS)
    assert run.bars["kernel"] == [("scale", "stream 1"), ("twice", "stream 2")]
    assert run.bars["library"] == [("cupy_add", "stream 2")]
    assert [name for name, _ in run.bars["copy"]] == ["HtoD", "DtoH", "HtoD", "DtoH"]
    assert {name for name, _ in run.bars["range"]} == {"numba", "cupy"}
    assert {"cuMemAlloc", "cuStreamSynchronize", "cudaStreamSynchronize"} <= set(calls(run))
    assert run.data["hints"] == []


def test_pytorch_and_triton(tmp_path: Path) -> None:
    run = traced(tmp_path, "tensors.py", TENSORS)
    names = [name for name, _ in run.bars["kernel"]]
    assert names[0] == "more" and names[1].startswith("aten::addm")
    assert {lane for name, lane in run.bars["kernel"] if name == "more"} == {"stream 1"}
    moved = [row for row in run.data["statistics"]["copies"] if row["name"] == "HtoD"]
    assert moved[0]["nbytes"] == 4 * (1000 + 4 * 1000 + 4), "the tensor, the weights and the bias"
    assert not any("uniform" in name or "ones" in name for name in names), "made on the host"
    assert ("side", "NVTX ranges 1") in run.bars["range"]
    assert bar(run, "kernel")[0] >= max(bar(run, "copy", i)[1] for i in range(3)) - 1e-6


WRONG = {
    "one kernel": (["p.py", "--kernel", "k"], "a timeline needs every kernel"),
    "a record": (["p.json"], "a record of profiles has no timeline"),
}


@pytest.mark.parametrize(("words", "said"), WRONG.values(), ids=WRONG.keys())
def test_files_without_a_timeline(words: list[str], said: str, tmp_path: Path) -> None:
    from weft.device.selection import select
    from weft.tasks.profile import ProfileOptions, profile

    kernel = words[2] if len(words) > 1 else None
    options = ProfileOptions(tmp_path / words[0], select("sim"), kernel, timeline=True)
    with pytest.raises(weft.Error, match=said):
        profile(options)
