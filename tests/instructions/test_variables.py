"""Variables of a module: reached from Python, and shared by all instances of its templates."""

from __future__ import annotations

import numpy as np
import pytest

import weft

SOURCE = r"""
__constant__ float factor[4];
__device__ int count = 3;
__device__ int* where = &count;
__device__ const char* words[2] = {"one", "two"};
__device__ float* kept;
namespace { __device__ int hidden = 4; }
namespace a { __device__ int twice = 1; }
namespace b { __device__ int twice = 2; }
template <class T> __device__ T fill = T(7);
template <int R> __device__ const char* name() { return R == 1 ? "first" : "other"; }

template <int R> __global__ void scale(float* y) { y[threadIdx.x] = factor[threadIdx.x] * R; }
template <int R> __global__ void add() { atomicAdd(where, R); hidden += R; }
template <int R> __global__ void own(int* y) { static __device__ int n = 10; y[0] = n += R; }
template <int R> __global__ void read(int* y) { y[0] = words[1][0]; y[1] = name<R>()[0]; }
template <class T> __global__ void write(T x) { fill<T> = x; }
__global__ void keep() { kept = new float[2]{1.0f, 2.0f}; }
template <int I> __global__ void drop(float* y) { y[0] = kept[I]; delete[] kept; }
"""


@pytest.fixture
def module() -> weft.Module:
    return weft.cuda(SOURCE)


def test_instances_read_what_was_written_before_them(module: weft.Module) -> None:
    module.variable("factor", np.float32)[:] = [1, 2, 3, 4]
    y = np.zeros(4, np.float32)
    module.kernel("scale<2>")[1, 4](y)
    assert y.tolist() == [2, 4, 6, 8]


def test_instances_read_what_was_written_after_them(module: weft.Module) -> None:
    kernels = [module.kernel(f"scale<{i}>") for i in (1, 3)]
    y = np.zeros(4, np.float32)
    for kernel in kernels:
        kernel[1, 4](y)
    kernels[0].variable("factor", np.float32)[:] = 5
    kernels[1][1, 4](y)
    assert y.tolist() == [15] * 4


def test_instances_count_in_one_place(module: weft.Module) -> None:
    for i in (1, 2, 4):
        module.kernel(f"add<{i}>")[1, 1]()
    assert module.variable("count", np.int32)[0] == 10
    assert module.variable("hidden", np.int32)[0] == 11


def test_initial_values_are_set_once(module: weft.Module) -> None:
    module.variable("count", np.int32)[0] = 100
    module.kernel("add<1>")[1, 1]()
    assert module.kernel("add<2>").variable("count", np.int32)[0] == 101


def test_what_belongs_to_one_instance_stays_there(module: weft.Module) -> None:
    y = np.zeros(1, np.int32)
    for i, expected in ((1, 11), (2, 12), (1, 12)):
        module.kernel(f"own<{i}>")[1, 1](y)
        assert y[0] == expected


def test_strings_of_the_same_label_stay_apart(module: weft.Module) -> None:
    y = np.zeros(2, np.int32)
    for i, letter in ((1, "f"), (2, "o")):
        module.kernel(f"read<{i}>")[1, 1](y)
        assert "".join(map(chr, y)) == f"t{letter}"


def test_the_heap_is_shared(module: weft.Module) -> None:
    y = np.zeros(1, np.float32)
    module.keep[1, 1]()
    module.kernel("drop<1>")[1, 1](y)
    assert y[0] == 2


def test_names_as_the_source_spells_them(module: weft.Module) -> None:
    assert module.variable("a::twice", np.int32)[0] == 1
    assert module.variable("b::twice", np.int32)[0] == 2
    assert module.variable("fill<short>", np.int16)[0] == 7
    module.kernel("write<short>")[1, 1](9)
    assert module.variable("fill<short>", np.int16)[0] == 9


DECLARED = r"""
__constant__ float c[4];
__device__ static const unsigned int u = 3; // __device__ double u;
__device__ volatile short a[2][3], b;
__device__ float4 v[2];
__device__ float* p;
namespace n { __device__ double d; }
struct S { int x; };
__device__ S s;
template <class T> __device__ T t;
__global__ void k(float* y) { y[0] = c[0] + u + a[1][1] + b + v[0].x + n::d + s.x + *p; }
"""
DTYPES = {"c": "float32", "u": "uint32", "a": "int16", "b": "int16", "v": "float32", "p": "uint64",
          "n::d": "float64"}  # fmt: skip


def test_the_source_tells_the_dtype() -> None:
    module = weft.cuda(DECLARED)
    assert {name: str(module.variable(name).dtype) for name in DTYPES} == DTYPES
    assert module.variable("c").shape == (4,) and module.k.variable("c").dtype == np.float32
    for name in ("s", "t<int>"):
        with pytest.raises(weft.LaunchError, match=f"the dtype of '{name}' is not known") as error:
            module.variable(name)
        assert error.value.next.startswith(f"pass it: variable('{name}', np.float32)")


# how it is asked for, what the error says
REFUSED = [
    (("nosuch", np.float32), "no variable 'nosuch'"),
    (("twice", np.int32), "'twice' may be one of several variables"),
    (("keep", np.int32), "no variable 'keep'"),
    (("count", np.float64), "'count' is no array of float64"),
]


@pytest.mark.parametrize("asked, message", REFUSED, ids=[m for _, m in REFUSED])
def test_refused(module: weft.Module, asked: tuple[str, type], message: str) -> None:
    with pytest.raises(weft.LaunchError, match=message):
        module.variable(*asked)
