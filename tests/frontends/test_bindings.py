"""Scripts that use the driver API and NVRTC through `cuda.bindings`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from limits import PROCESS_SECONDS
from weft.source import toolkit

pytestmark = pytest.mark.skipif(
    toolkit.locate("nvcc", toolkit.VARIABLE) is None, reason="nvcc was not found"
)

SCRIPT = '''
import ctypes
import numpy as np
from cuda.bindings import driver, nvrtc

def ok(result):
    error, *values = result
    assert error.value == 0, driver.cuGetErrorName(error)
    return values[0] if len(values) == 1 else values

SOURCE = b"""extern "C" __global__ void scale(float *x, float f, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= f;
}"""
ok(driver.cuInit(0))
device = ok(driver.cuDeviceGet(0))
ok(driver.cuCtxSetCurrent(ok(driver.cuDevicePrimaryCtxRetain(device))))
major = ok(driver.cuDeviceGetAttribute(
    driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device))
program = ok(nvrtc.nvrtcCreateProgram(SOURCE, b"scale.cu", 0, [], []))
ok(nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=compute_%d0" % major]))
ptx = b" " * ok(nvrtc.nvrtcGetPTXSize(program))
ok(nvrtc.nvrtcGetPTX(program, ptx))
kernel = ok(driver.cuModuleGetFunction(ok(driver.cuModuleLoadData(ptx)), b"scale"))
x = np.arange(100, dtype=np.float32)
memory, stream = ok(driver.cuMemAlloc(x.nbytes)), ok(driver.cuStreamCreate(0))
ok(driver.cuMemcpyHtoDAsync(memory, x.ctypes.data, x.nbytes, stream))
arguments = ((memory, 2.0, 100), (None, ctypes.c_float, ctypes.c_int))
ok(driver.cuLaunchKernel(kernel, 4, 1, 1, 32, 1, 1, 0, stream, arguments, 0))
ok(driver.cuStreamSynchronize(stream))
ok(driver.cuMemcpyDtoH(x.ctypes.data, memory, x.nbytes))
print(major, x.sum(), driver.cuMemFree(0)[0].name)
'''


def test_a_kernel_of_nvrtc_is_launched(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-m", "weft", "run", "--device", "sim:rtx3090", "script.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=PROCESS_SECONDS,
        env={**os.environ, "WEFT_DRAFTS": "1"},
    )  # fmt: skip
    assert (done.stdout, done.returncode) == ("8 9900.0 CUDA_SUCCESS\n", 0), done.stderr
