"""Rungs whose kernels take tensor maps: a comment asks for them; other GPUs leave them out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from small_ladder import OP
from weft.climbing import ladder, maps, rung
from weft.climbing.climb import zeros
from weft.errors import ArgumentError
from weft.lab.bind import BoundCuda
from weft.lab.job import Job
from weft.measure import Case
from weft.measure.check import input_data

TWICE = """// rung: 00 boxes
// idea: a box for each block
// needs: sm_90
// map: box = x[64]
// launch: twice<<<cdiv(n, 64), 64>>>
#include <weft/tma.cuh>
__global__ void twice(const __grid_constant__ weft::TensorMap box, float* y, int n) {
    __shared__ __align__(128) float tile[64];
    __shared__ weft::Barrier full;
    if (threadIdx.x == 0) full.init(1), weft::publish_barriers();
    __syncthreads();
    if (threadIdx.x == 0) {
        full.arrive_expecting(256);
        weft::load_box(weft::shared_address(tile), box, full, int(blockIdx.x * 64));
    }
    full.wait(0);
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) y[i] = 2 * tile[threadIdx.x];
}
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "op.py").write_text(OP)
    (tmp_path / "rung_00_boxes.cu").write_text(TWICE)
    return tmp_path


def test_a_rung_takes_a_map(own: Path) -> None:
    result = weft.climb(own)
    assert result.right and not result.rungs[0].missing


def test_a_gpu_without_tensor_copies_leaves_the_rung_out(own: Path) -> None:
    reached = weft.climb(own, device="sim:a100").rungs[0]
    assert "needs sm_90" in reached.missing and "sm_80" in reached.missing


def test_the_lab_makes_the_maps_of_a_source() -> None:
    x, y = np.arange(70, dtype=np.float32), np.zeros(70, np.float32)
    job = Job("cuda", TWICE, {"n": 70}, (), ("twice<<<cdiv(n, 64), 64>>>",))
    BoundCuda(job).run({"x": x, "y": y, "n": 70})
    assert np.array_equal(y, 2 * x)


@pytest.mark.parametrize(
    ("line", "expected"), [("box = x", "cannot be read"), ("box = x[64] swizzle", "cannot be read")]
)
def test_a_map_that_cannot_be_read(own: Path, line: str, expected: str) -> None:
    file = own / "rung_00_boxes.cu"
    file.write_text(TWICE.replace("box = x[64]", line))
    with pytest.raises(ArgumentError, match=expected):
        rung.read(file)


def test_the_map_of_an_array_that_is_not_there() -> None:
    with pytest.raises(ArgumentError, match="not there"):
        maps.read("box = z[64]", "here").made({"x": np.zeros(64)}, {})


def test_an_architecture_that_cannot_be_read(own: Path) -> None:
    file = own / "rung_00_boxes.cu"
    file.write_text(TWICE.replace("needs: sm_90", "needs: hopper"))
    with pytest.raises(ArgumentError, match="architecture"):
        rung.read(file)


@pytest.mark.parametrize("schedule", ["first", "last"])
@pytest.mark.parametrize("number", [6, 7, 8, 9])
def test_products_go_around_the_ring(number: int, schedule: str) -> None:
    """More steps than stages, and one SM that computes all tiles."""
    found = ladder.find("matmul_bf16")
    runner = rung.Runner(found.rungs[number], found.op, sms=1, empty=zeros)
    case = Case(M=136, N=264, K=64 * 9 + 16)
    rng = np.random.default_rng(3)
    arrays: dict[str, Any] = {
        s.name: found.op.data(s, case, rng, input_data.random) for s in found.op.inputs
    }
    arrays["C"] = np.zeros((136, 264), np.uint16)
    with weft.schedule(schedule):
        runner(**arrays, **case.sizes)
    a, b, c = (
        (arrays[n].astype(np.uint32) << 16).view(np.float32).astype(np.float64) for n in "ABC"
    )
    assert np.abs(c - a @ b).max() <= 2**-7 * np.abs(a @ b).max()


def test_dimensions_in_another_order() -> None:
    array = np.zeros((2, 3, 5, 16), np.float16)
    made = maps.read("q = x:0213[1, 4, 1, n]", "here").made({"x": array}, {"n": 16})
    expected = weft.tensor_map(array.transpose(0, 2, 1, 3), (1, 4, 1, 16))
    assert bytes(made) == bytes(expected)
    assert bytes(made) != bytes(weft.tensor_map(array, (1, 1, 4, 16)))
    with pytest.raises(ArgumentError, match="an order that is none of its array's dimensions"):
        maps.read("q = x:0013[1, 4, 1, 16]", "here").made({"x": array}, {})
