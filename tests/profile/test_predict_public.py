"""The benchmark of predicted times on public programs: what ncu writes, and what joins both."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from folders import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

import predict_public

pytestmark = pytest.mark.sim
WRITTEN = """==PROF== Connected to process 4711 (/tmp/scale)
==PROF== Profiling "scale" - 0: 0%....50%....100% - 1 pass
==PROF== Disconnected from process 4711
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size",\
"Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"
"0","4711","scale","127.0.0.1","void scale<float>(T1 *, int)","1","7","(256, 1, 1)",\
"(4, 1, 1)","0","9.0","Command line profiler metrics","gpu__time_duration.sum","us","1.50"
"1","4711","scale","127.0.0.1","void scale<float>(T1 *, int)","1","7","(256, 1, 1)",\
"(4, 1, 1)","0","9.0","Command line profiler metrics","gpu__time_duration.sum","ns","1,700"
"2","4711","scale","127.0.0.1","void scale<float>(T1 *, int)","1","7","(256, 1, 1)",\
"(4, 1, 1)","0","9.0","Command line profiler metrics","gpu__time_duration.sum","us","1.60"
"3","4711","scale","127.0.0.1","void scale<int>(T1 *, int)","1","7","(256, 1, 1)",\
"(4, 1, 1)","0","9.0","Command line profiler metrics","gpu__time_duration.sum","ms","0.002"
==WARNING== something else
"""
PROGRAM = """
template <class T> __global__ void scale(T* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = 2 * x[i];
}
int main() {
    float* x; int* y;
    cudaMalloc(&x, 4096); cudaMalloc(&y, 4096);
    for (int k = 0; k < 3; k++) scale<<<4, 256>>>(x, 1000);
    scale<<<4, 256>>>(y, 1000);
    return cudaDeviceSynchronize();
}
"""


def test_what_ncu_writes() -> None:
    few, other = predict_public.timed(WRITTEN)
    assert (few.grid, few.block, few.launches) == ((4, 1, 1), (256, 1, 1), 3)
    assert few.seconds == pytest.approx(1.6e-6) and other.seconds == pytest.approx(2e-6)


def test_instances_of_a_template_are_joined_in_order(tmp_path: Path) -> None:
    (tmp_path / "scale").mkdir()
    (tmp_path / "scale" / "main.cu").write_text(PROGRAM)
    about = {"name": "scale", "repository": "me/mine", "commit": "0", "path": ".", "flags": []}
    programs = [about | {"sources": ["main.cu"], "args": []}]
    (tmp_path / "programs.json").write_text(json.dumps(programs))
    found = predict_public.programs(tmp_path)
    predict_public.count(found)
    times = tmp_path / "times.jsonl"
    kernels = [asdict(one) for one in predict_public.timed(WRITTEN)]
    times.write_text(json.dumps({"name": "scale", "kernels": kernels}) + "\n")
    rows = list(predict_public.join(found, times))
    assert [row["rung"] for row in rows] == ["scale<float>", "scale<int>"]
    assert [row["measured"] for row in rows] == [1.6e-6, 2e-6]
    assert all(row["launches"][0]["units"]["L2"] > 0 for row in rows)
