"""Numba kernels with linked code: CUDA C++, PTX, LTO-IR, folders of headers, arrays of Numba's
runtime, pointers, and variables of loaded modules."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import weft

pytest.importorskip("numba.cuda")

from test_numba_script import run

# One script for all: a process costs more than a kernel.
LINKED = r"""
from pathlib import Path
from numba import types
from numba.cuda import config
from numba.cuda.cudadrv import nvrtc
from numba.cuda.cudadrv.linkable_code import CUSource, LTOIR, PTXSource
from cuda.bindings.driver import cuLibraryGetGlobal, cuMemcpyHtoD
from cuda.core import ObjectCode

HERE = Path(__file__).parent
(HERE / "own.cuh").write_text("__device__ float product(float a, float b) { return a * b; }")
config.CUDA_NVRTC_EXTRA_SEARCH_PATHS = str(HERE)
loaded = []

def setup(code):
    assert isinstance(code, ObjectCode)
    loaded.append(code.handle)
    error, address, size = cuLibraryGetGlobal(code.handle, b"offset")
    assert error == 0 and size == 4
    cuMemcpyHtoD(address, np.array([40], np.int32).ctypes.data, size)

# Link-time optimisation fuses the product of the one with the sum of the other.
MULTIPLY = CUSource(r'''
#include "own.cuh"
extern "C" __device__ int multiply(float* out, float a, float b) { *out = product(a, b); return 0; }
''')
OFFSET = CUSource(r'''
__device__ int offset = 0;
extern "C" __device__ int shifted(int* out, int x) { *out = x + offset; return 0; }
''', setup_callback=setup)
TWICE = r'''
extern "C" __device__ int twice(int* out, const int* x) { *out = 2 * x[0]; return 0; }
'''
multiply = cuda.declare_device("multiply", "float32(float32, float32)", link=[MULTIPLY])
shifted = cuda.declare_device("shifted", "int32(int32)", link=[OFFSET])
lto = LTOIR(nvrtc.compile(TWICE, "twice.cu", (9, 0), ltoir=True)[0].code)
twice = cuda.declare_device("twice", "int32(CPointer(int32))", link=[lto])

@cuda.jit
def fused(x, y):
    y[0] = multiply(x[0], x[1]) + x[2]

@cuda.jit(types.void(types.CPointer(types.int32), types.int32[:]))
def kernel(pointer, out):
    out[0] = shifted(pointer[1])
    out[1] = twice(pointer)

step = np.float32(2.0**-12)
x = np.array([1 + step, 1 + step, -1 - 2 * step], np.float32)
y = np.zeros(1, np.float32)
fused[1, 1](x, y)
assert y[0] == step * step, y  # 0 if the product were rounded first

device, out = cuda.to_device(np.array([5, 2], np.int32)), np.zeros(2, np.int32)
kernel[1, 1](device.device_ctypes_pointer.value, out)
assert out.tolist() == [42, 10] and len(loaded) == 1, out
assert ".visible .entry" in next(iter(fused.inspect_lto_ptx().values()))

# PTX, and arrays that a kernel allocates
config.CUDA_ENABLE_NRT = True
triple = cuda.declare_device("triple", "int64(int64)")
(HERE / "triple.ptx").write_text('''
.version 8.0
.target sm_80
.address_size 64
.visible .func (.param .b32 status) triple(.param .b64 out, .param .b64 x)
{
    .reg .b64 %a, %x;
    .reg .b32 %zero;
    ld.param.u64 %a, [out];
    ld.param.u64 %x, [x];
    mul.lo.s64 %x, %x, 3;
    st.u64 [%a], %x;
    mov.u32 %zero, 0;
    st.param.b32 [status], %zero;
    ret;
}
''')

@cuda.jit(link=[str(HERE / "triple.ptx")])
def allocates(out):
    made = np.empty(4, np.int64)
    for i in range(4):
        made[i] = triple(i + cuda.threadIdx.x)
    tail = made[1:]
    out[cuda.threadIdx.x] = tail[0] + tail[2]

sums = np.zeros(3, np.int64)
allocates[1, 3](sums)
assert sums.tolist() == [12, 18, 24], sums

def nothing(x):
    pass

(HERE / "twice.cubin").write_bytes(b"\x7fELF" + bytes(60))
try:
    cuda.jit("void(int32[:])", link=[str(HERE / "twice.cubin")])(nothing)
except Exception as error:
    print(error.what, "|", error.allowed)
"""


def test_linked_code(tmp_path: Path) -> None:
    done = run(tmp_path, LINKED)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("nvJitLink cannot link this into a simulated kernel | CUDA C++")
    assert "machine code cannot be simulated" in done.stdout


def test_an_error_in_linked_cuda_names_its_line() -> None:
    from numba import cuda
    from numba.cuda.cudadrv.linkable_code import CUSource

    wrong = cuda.declare_device(
        "wrong", "int32(int32)", link=[CUSource("__device__ int x = ;", name="w.cu")]
    )

    def kernel(out):  # type: ignore[no-untyped-def]
        out[0] = wrong(1)

    with pytest.raises(weft.CompileError, match=r"w\.cu:1: expected an expression"):
        weft.kernel(kernel)[1, 1](np.zeros(1, np.int32))
