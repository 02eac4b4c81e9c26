"""Profiles where there is a real GPU: its time beside the counters, and ncu's table."""

from __future__ import annotations

import pytest

import weft
from weft.errors import Error
from weft.measure import ncu

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
    assert (one.kernel, one.grid, one.block) == ("saxpy", "(4, 1, 1)", "(256, 1, 1)")
    found = {m.label: (m.value, m.unit) for s in one.sections for m in s.metrics}
    assert found["Duration, measured by ncu"] == (pytest.approx(2.496e-6), "s")
    assert found["Global loads: sectors"] == (250, "")
    assert found["L2 hit rate"] == ("n/a", "")
    assert ncu.read("nothing was launched") == []


def test_ncu_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Error, match="ncu is not on PATH"):
        ncu.counters(["true"], None, None)


@pytest.mark.gpu
def test_a_launch_on_the_gpu_has_its_time_beside_the_counters() -> None:
    torch = pytest.importorskip("torch")
    x, y = (torch.ones(1000, device="cuda") for _ in range(2))
    p = weft.profile(weft.cuda(SOURCE).saxpy[4, 256], 2.0, x, y, 1000)
    assert (y == 3).all(), "launched once on the arrays that were given"
    assert p.measured is not None and 0 < p.measured < 1
    assert p.totals["sim:ptx__ops_fp32.sum"] == 2000 and "measured on the GPU" in str(p)
