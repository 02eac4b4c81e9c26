"""One contract for both devices: what a launch does, `pytest --device sim` or `--device gpu`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import weft
from devices import Gpu, Sim

SOURCE = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>
struct Pair { int a; double b; };
__constant__ float factor[4];
__device__ int count = 3;
__global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
extern "C" __global__ void plain(int* y) { y[threadIdx.x] += 1; }
template <class T, int K> __global__ void power(T* x) {
    T v = x[threadIdx.x], p = 1;
    for (int i = 0; i < K; i++) p *= v;
    x[threadIdx.x] = p;
}
__global__ void where(int* y) {
    int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    y[block * blockDim.x * blockDim.y * blockDim.z + thread] = block * 10000 + thread;
}
__global__ void scalars(bool a, signed char b, unsigned short c, int d, unsigned e, long long f,
                        unsigned long long g, float h, double i, __half j, __nv_bfloat16 k,
                        double* y) {
    double all[] = {double(a), double(b), double(c), double(d), double(e), double(f), double(g),
                    double(h), i, double(__half2float(j)), double(__bfloat162float(k))};
    for (int n = 0; n < 11; n++) y[n] = all[n];
}
__global__ void pair(Pair p, double* y) { y[0] = p.a + p.b; }
__global__ void pointers(const int* maybe, int* y) { y[0] = maybe == nullptr; }
__global__ void reversed(int* y) {
    extern __shared__ int room[];
    for (int i = threadIdx.x; i < 16384; i += blockDim.x) room[i] = i;
    __syncthreads();
    for (int i = threadIdx.x; i < 16384; i += blockDim.x) y[i] = room[16383 - i];
}
__global__ void variables(float* y) {
    if (threadIdx.x == 0) count += 1;
    y[threadIdx.x] = factor[threadIdx.x];
}
"""
MEET = r"""
#include <cooperative_groups.h>
__global__ void meet(int* y) {
    y[blockIdx.x] = blockIdx.x;
    cooperative_groups::this_grid().sync();
    y[gridDim.x + blockIdx.x] = y[(blockIdx.x + 1) % gridDim.x];
}
"""


@pytest.fixture(scope="module")
def module() -> weft.Module:
    return weft.cuda(SOURCE)


Device = Sim | Gpu


def test_a_launch(module: weft.Module, device: Device) -> None:
    x, y = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    there = device.array(y)
    module.scale[weft.cdiv(1000, 256), 256](device.array(x), there, 1000)
    assert np.array_equal(device.read(there), 2 * x)


def test_the_keyword_form(module: weft.Module, device: Device) -> None:
    y = device.array(np.zeros(8, np.int32))
    module.plain(y, grid=1, block=8)
    module.plain(y, grid=(1, 1), block=[4], shared_mem=16, stream=None)
    assert device.read(y).tolist() == [2] * 4 + [1] * 4


SHAPES: list[tuple[Any, Any]] = [(3, 5), ((2, 3), (4, 2)), ((2, 1, 3), (3, 2, 2)), ([4], [1, 2, 3])]


@pytest.mark.parametrize(("grid", "block"), SHAPES, ids=str)
def test_shapes(module: weft.Module, device: Device, grid: Any, block: Any) -> None:
    blocks, threads = int(np.prod(grid)), int(np.prod(block))
    y = device.array(np.zeros(blocks * threads, np.int32))
    module.where[grid, block](y)
    expected = (np.arange(blocks)[:, None] * 10000 + np.arange(threads)).ravel()
    assert np.array_equal(device.read(y), expected)


@pytest.mark.parametrize("grid", [0, (1, 0)])
def test_an_empty_grid_is_refused(module: weft.Module, device: Device, grid: Any) -> None:
    y = device.array(np.zeros(8, np.int32))
    with pytest.raises(weft.LaunchError, match="1 and above in x, y and z"):
        module.plain[grid, 8](y)
    assert not device.read(y).any()


NUMBERS = (True, -5, 65535, -(2**31), 2**32 - 1, -(2**40), 2**52, 0.1, 0.1, 0.1, 0.1)


@pytest.mark.parametrize("again", [1, 3])
def test_numbers_become_the_type_of_their_parameter(
    module: weft.Module, device: Device, again: int
) -> None:
    y = device.array(np.zeros(11))
    for _ in range(again):  # the first launch of a kind takes another way than those after it
        module.scalars[1, 1](*NUMBERS, y)
    small = [np.float32(0.1), 0.1, np.float16(0.1), 0.10009765625]
    assert device.read(y).tolist() == [*map(float, NUMBERS[:7]), *map(float, small)]


def test_numbers_of_numpy(module: weft.Module, device: Device) -> None:
    x, y = device.array(np.ones(8, np.float32)), device.array(np.zeros(8, np.float32))
    for n in (np.int32(3), np.int64(4), np.uint8(5), 6.0):
        module.scale[1, 8](x, y, n)
    assert device.read(y).sum() == 12


def test_a_struct_and_a_null_pointer(module: weft.Module, device: Device) -> None:
    kind = np.dtype([("a", np.int32), ("b", np.float64)], align=True)
    y, z = device.array(np.zeros(1)), device.array(np.zeros(1, np.int32))
    module.pair[1, 1](np.array((3, 0.25), kind)[()], y)
    module.pointers[1, 1](None, z)
    assert device.read(y)[0] == 3.25 and device.read(z)[0] == 1


ALIGNED = r"""
struct alignas(%d) Wide { float v[%d]; };
__global__ void first(Wide w, float* y) { y[threadIdx.x] = w.v[threadIdx.x]; }
__global__ void later(signed char c, Wide w, short s, Wide x, float* y) {
    y[threadIdx.x] = w.v[threadIdx.x] + 1000 * x.v[threadIdx.x] + c + s;
}
"""


@pytest.mark.parametrize("align", [16, 32, 64, 128])
def test_parameters_of_any_alignment(device: Device, align: int) -> None:
    """ptxas moves a parameter that is aligned to more than 16 bytes; the launch must follow it."""
    count = align // 2  # two alignments long
    module = weft.cuda(ALIGNED % (align, count))
    w, x = np.arange(1, count + 1, dtype=np.float32), np.arange(count, dtype=np.float32)
    y = device.array(np.zeros(count, np.float32))
    for _ in range(2):
        module.first[1, count](w.tobytes(), y)
        assert np.array_equal(device.read(y), w)
    module.later[1, count](-5, w.tobytes(), 300, x.tobytes(), y)
    assert np.array_equal(device.read(y), w + 1000 * x + 295)
    module.later.bind(1, count, 0, x.tobytes(), 0, w.tobytes(), y)()
    assert np.array_equal(device.read(y), x + 1000 * w)


def test_much_dynamic_shared_memory(module: weft.Module, device: Device) -> None:
    y = device.array(np.zeros(16384, np.int32))
    module.reversed[1, 256, 65536](y)
    assert np.array_equal(device.read(y), np.arange(16384)[::-1])


def test_blocks_that_wait_for_the_grid(device: Device) -> None:
    y = device.array(np.zeros(32, np.int32))
    weft.cuda(MEET).meet[16, 32](y)
    assert device.read(y)[16:].tolist() == [*range(1, 16), 0]


@pytest.mark.parametrize("kind", ["int", "float", "double"])
def test_templates(module: weft.Module, device: Device, kind: str) -> None:
    dtype = {"int": np.int32, "float": np.float32, "double": np.float64}[kind]
    x = device.array(np.arange(8, dtype=dtype))
    module.kernel(f"power<{kind}, 3>")[1, 8](x)
    assert device.read(x).tolist() == [i**3 for i in range(8)]


def test_variables(device: Device) -> None:
    module = weft.cuda(SOURCE)
    module.variable("factor", np.float32, device.gpu)[:] = [1, 2, 3, 4]
    module.variable("factor", np.float32, device.gpu)[1] = 7
    y = device.array(np.zeros(4, np.float32))
    module.variables[2, 4](y)
    assert device.read(y).tolist() == [1, 7, 3, 4]
    assert module.variable("count", np.int32, device.gpu)[0] in (4, 5)  # both blocks add, unguarded
    for asked, message in (("nosuch", "no variable 'nosuch'"), ("count", "is no array of float64")):
        with pytest.raises(weft.LaunchError, match=message):
            module.variable(asked, np.float64, device.gpu)


def test_instances_see_what_the_host_writes(device: Device) -> None:
    module = weft.cuda(r"""
    __constant__ int factor[4];
    __global__ void plain(int* y) { y[threadIdx.x] = factor[threadIdx.x]; }
    template <int R> __global__ void times(int* y) { y[threadIdx.x] = factor[threadIdx.x] * R; }
    """)
    y = device.array(np.zeros(4, np.int32))
    module.plain[1, 4](y)
    module.variable("factor", np.int32, device.gpu)[:] = [1, 2, 3, 4]
    module.kernel("times<2>")[1, 4](y)  # loaded after it was written
    assert device.read(y).tolist() == [2, 4, 6, 8]
    module.variable("factor", np.int32, device.gpu)[0] = 5  # and before
    module.kernel("times<2>")[1, 4](y)
    assert device.read(y).tolist() == [10, 4, 6, 8]


def test_ptx_without_its_source(module: weft.Module, device: Device) -> None:
    y = device.array(np.zeros(8, np.int32))
    old = module.ptx.text.replace(".version 9.4", ".version 9.0")  # what older drivers take
    weft.load_ptx(old).plain[1, 8](y)
    assert device.read(y).tolist() == [1] * 8


def test_bound_launches(module: weft.Module, device: Device) -> None:
    y = device.array(np.zeros(8, np.int32))
    launch = module.plain.bind(1, 8, y)
    for _ in range(5):
        launch()
    assert device.read(y).tolist() == [5] * 8
    with pytest.raises(weft.LaunchError, match="1 and above in x, y and z"):
        module.plain.bind((2, 0), 8, y)
    with pytest.raises(weft.ArgumentError, match="takes 1 arguments"):
        module.plain.bind(1, 8, y, 3)
    assert device.read(y).tolist() == [5] * 8


def test_many_threads_at_once(module: weft.Module, device: Device) -> None:
    def work(k: int) -> bool:
        x, y = device.array(np.full(64, k, np.float32)), device.array(np.zeros(64, np.float32))
        for n in range(1, 30):
            module.scale[1, 64](x, y, n + k)
        return bool((device.read(y)[: min(29 + k, 64)] == 2 * k).all())

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(1, 17)))


def test_a_time_limit_that_holds(module: weft.Module, device: Device) -> None:
    y = device.array(np.zeros(8, np.int32))
    module.plain[1, 8](y, time_limit=300)
    assert device.read(y).tolist() == [1] * 8


def test_resources(device: Device) -> None:
    where = {"sim": "sim:h200", "gpu": "gpu"}[device.name]
    wide = weft.cuda(SOURCE, device=where).scale.resources
    assert 4 <= wide.registers <= 40 and wide.spill_stores == 0
    assert wide.arch == {"sim": "sm_90a", "gpu": wide.arch}[device.name]


def test_arrays_like_earlier_ones_are_still_checked(module: weft.Module, device: Device) -> None:
    x, y = device.array(np.ones(64, np.float32)), np.zeros(64, np.float32)
    module.scale[1, 32](x, device.array(y), 1)
    fixed = y.copy()
    fixed.flags.writeable = False
    for bad in (fixed, y[::2], y.astype(np.float64), y.astype(np.int32)):
        with pytest.raises(weft.ArgumentError, match="'y'"):
            module.scale[1, 32](x, device.array(bad), 1)
    for number in (2**31, 1.5, "1", None):
        with pytest.raises(weft.ArgumentError, match="'n'"):
            module.scale[1, 32](x, device.array(y), number)
