"""Scripts that use the driver, the runtime and NVRTC by `cuda.bindings` and `cuda.core`."""

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


CORE = '''
import numpy as np
from cuda import pathfinder
pathfinder.load_nvidia_dynamic_lib("nvrtc")  # before the driver, as by a library that compiles
from cuda.bindings import runtime
from cuda.core import Device, LaunchConfig, LegacyPinnedMemoryResource, Program, ProgramOptions
from cuda.core import launch

SOURCE = """template <typename T> __global__ void scale(T *x, T by, size_t n) {
    size_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= by;
}"""
device = Device()
device.set_current()
stream = device.create_stream()
options = ProgramOptions(std="c++17", arch=f"sm_{device.arch}")
names = ("scale<float>", "scale<double>")
module = Program(SOURCE, code_type="c++", options=options).compile("cubin", name_expressions=names)
host = LegacyPinnedMemoryResource().allocate(400, stream=stream)
numbers = np.from_dlpack(host).view(np.float32)
numbers[:] = np.arange(100)
memory = device.memory_resource.allocate(400, stream=stream)
host.copy_to(memory, stream=stream)
kernel = module.get_kernel("scale<float>")
launch(stream, LaunchConfig(grid=4, block=32), kernel, memory, np.float32(2), np.uint64(100))
memory.copy_to(host, stream=stream)
stream.sync()
print(device.compute_capability.major, numbers.sum(), kernel.num_arguments)

class Array(np.ndarray):  # of another library, known by its address
    pass
mine = np.ones(100, np.float32).view(Array)
builder = device.create_graph_builder().begin_building()
config, by, n = LaunchConfig(grid=4, block=32), np.float32(3), np.uint64(100)
launch(builder, config, kernel, mine.ctypes.data, by, n)
graph = builder.end_building().complete()
assert mine.sum() == 100
graph.launch(stream)
graph.launch(stream)
device.sync()
print(mine.sum(), device.pci_bus_id, runtime.cudaGetDeviceCount()[1])
error, address = runtime.cudaMalloc(400)
kind = runtime.cudaMemcpyKind.cudaMemcpyDefault
assert not runtime.cudaMemcpy(address, mine.ctypes.data, 400, kind)[0].value
back = np.zeros(100, np.float32)
kind = runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost
assert not runtime.cudaMemcpy(back.ctypes.data, address, 400, kind)[0].value
assert not runtime.cudaFree(address)[0].value
print(back.sum(), runtime.cudaGetDeviceProperties(0)[1].multiProcessorCount)

import weft.cupy as cp

theirs = cp.ones(100, dtype=np.float32)
launch(stream, config, kernel, theirs.data.ptr, by, n)
stream.sync()
seen = cp.from_dlpack(memory).view(np.float32)  # memory of the GPU
assert float(theirs.sum()) == 300 and cp.allclose(seen, numbers)

from cuda.core import GraphMemoryResource, ManagedMemoryResource, PinnedMemoryResource

managed = ManagedMemoryResource().allocate(400, stream=stream)
pinned = PinnedMemoryResource().allocate(400, stream=stream)
both = [np.from_dlpack(each).view(np.float32) for each in (managed, pinned)]
both[0][:], both[1][:] = 7, np.arange(100)
builder = device.create_graph_builder().begin_building("relaxed")
of_graphs = GraphMemoryResource(device)
scratch = of_graphs.allocate(400, stream=builder)
scratch.copy_from(pinned, stream=builder)
launch(builder, config, kernel, scratch, by, n)
managed.copy_from(scratch, stream=builder)
scratch.close()
builder.end_building().complete().launch(stream)
stream.sync()
assert (both[0] == 3 * np.arange(100)).all() and of_graphs.attributes.used_mem_high == 400
pinned.close(stream), managed.close(stream)

second = Device(1)
second.set_current()
own = second.create_stream()
module = Program(SOURCE, code_type="c++", options=options).compile("cubin", name_expressions=names)
kernel = module.get_kernel("scale<double>")
memory = second.memory_resource.allocate(800, stream=own)
values = np.arange(100.0).view(Array)
launch(own, config, kernel, values.ctypes.data, np.float64(2), n)
own.sync()
print(values.sum(), memory.device_id, second.memory_resource.device_id)
'''


def _run(script: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(script)
    return subprocess.run(
        [sys.executable, "-m", "weft", "run", "--device", "sim:rtx3090", *options, "script.py"],
        cwd=folder, capture_output=True, text=True, timeout=PROCESS_SECONDS,
        env={**os.environ, "WEFT_DRAFTS": "1"},
    )  # fmt: skip


def test_a_script_of_cuda_core(tmp_path: Path) -> None:
    if not hasattr(pytest.importorskip("cuda.core"), "Device"):
        pytest.skip("this version has it in cuda.core.experimental")
    done = _run(CORE, tmp_path, "--gpus", "2")
    said = "8 9900.0 3\n900.0 0000:01:00.0 2\n900.0 82\n9900.0 1 1\n"
    assert (done.stdout, done.returncode) == (said, 0), done.stderr


def test_a_kernel_of_nvrtc_is_launched(tmp_path: Path) -> None:
    done = _run(SCRIPT, tmp_path)
    assert (done.stdout, done.returncode) == ("8 9900.0 CUDA_SUCCESS\n", 0), done.stderr
