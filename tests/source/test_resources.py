"""Resources of kernels on a real GPU: the assembler's report against the machine code itself."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cuda.bindings import nvrtc

import weft
from weft.device.occupancy import occupancy
from weft.kernels import Kernel
from weft.source import assemble
from weft.source.resources import Resources, read

SOURCE = r"""
__constant__ float table[100];
__device__ __noinline__ float pick(const float* y, int n) {
    float v[16];
    for (int i = 0; i < 16; i++) v[i] = y[i * n];
    v[n & 15] = 2.0f;
    float s = 0.0f;
    for (int i = 0; i < 16; i++) s += v[i] * v[(i * n) & 15];
    return s;
}
extern "C" __global__ void local(float* y, int n) { y[0] = pick(y, n) + pick(y + 1, n + 1); }
extern "C" __global__ void tile(float* y) {
    __shared__ float s[64];
    s[threadIdx.x] = y[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = s[63 - threadIdx.x] * table[threadIdx.x];
}
#define WIDE(name, ...) extern "C" __global__ void __VA_ARGS__ name(float* y) { \
    float v[128]; \
    _Pragma("unroll") for (int i = 0; i < 128; i++) v[i] = y[i * 32 + threadIdx.x]; \
    for (int r = 0; r < 10; r++) { \
        __syncthreads(); \
        _Pragma("unroll") for (int i = 0; i < 128; i++) \
            v[i] = v[i] * v[(i + 1) % 128] + v[(i + 7) % 128]; \
    } \
    _Pragma("unroll") for (int i = 0; i < 128; i++) y[i * 32 + threadIdx.x] = v[i]; \
}
WIDE(wide)
WIDE(squeezed, __launch_bounds__(1024))
template <int N> __global__ void sized(float* y) {
    __shared__ float s[N];
    s[threadIdx.x] = y[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = s[N - 1 - threadIdx.x];
}
"""
KERNELS = ("local", "tile", "wide", "squeezed")


@pytest.fixture(autouse=True)
def cache_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    return tmp_path


def assembled(arch: str) -> tuple[Elf, dict[str, Resources]]:
    """Machine code and report of one compile: the assembler does not repeat itself to the bit."""
    _, program = nvrtc.nvrtcCreateProgram(SOURCE.encode(), b"kernel.cu", 0, [], [])
    flags = [f"--gpu-architecture={arch}".encode(), b"--std=c++17", b"--ptxas-options=-v"]
    assert nvrtc.nvrtcCompileProgram(program, len(flags), flags)[0] == 0
    code = bytearray(nvrtc.nvrtcGetCUBINSize(program)[1])
    nvrtc.nvrtcGetCUBIN(program, code)
    log = bytearray(nvrtc.nvrtcGetProgramLogSize(program)[1])
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(program)
    return Elf(bytes(code)), read(log.decode(), arch)


class Elf:
    """As much of a cubin as the check needs: sections, symbols, and the records of .nv.info."""

    REGISTERS, STACK = 0x2F, 0x12

    def __init__(self, data: bytes) -> None:
        (start,) = struct.unpack_from("<Q", data, 0x28)
        size, count, names = struct.unpack_from("<HHH", data, 0x3A)
        heads = [struct.unpack_from("<IIQQQQIIQQ", data, start + i * size) for i in range(count)]
        strings = data[heads[names][4] :]
        self.sizes = {_text(strings, h[0]): h[5] for h in heads}
        bodies = {_text(strings, h[0]): data[h[4] : h[4] + h[5]] for h in heads}
        symbols = struct.iter_unpack("<IBBHQQ", bodies[".symtab"])
        self.symbols = [_text(bodies[".strtab"], symbol[0]) for symbol in symbols]
        self.records = list(_records(bodies[".nv.info"]))

    def number(self, attribute: int, kernel: str) -> int:
        wanted = self.symbols.index(kernel)
        return next(v for a, symbol, v in self.records if (a, symbol) == (attribute, wanted))


def _text(strings: bytes, at: int) -> str:
    return strings[at : strings.index(0, at)].decode()


def _records(info: bytes) -> Iterator[tuple[int, int, int]]:
    """(attribute, symbol, value) of the records that are about a symbol."""
    at = 0
    while at < len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        body = size if form == 4 else 0
        if body == 8:
            yield (attribute, *struct.unpack_from("<II", info, at + 4))
        at += 4 + body


@pytest.mark.parametrize("arch, reserved", [("sm_75", 0), ("sm_80", 0), ("sm_90", 1024)])
def test_the_report_says_what_the_machine_code_does(arch: str, reserved: int) -> None:
    elf, report = assembled(arch)
    assert set(report) == set(KERNELS)
    for name, found in report.items():
        assert found.registers == elf.number(Elf.REGISTERS, name)
        assert found.local_bytes == elf.number(Elf.STACK, name)
        assert found.shared_bytes == elf.sizes.get(f".nv.shared.{name}", reserved) - reserved


def test_resources_of_kernels() -> None:
    module = weft.cuda(SOURCE, device="sim:h200")
    tile, squeezed = module.tile.resources, module.squeezed.resources
    assert (tile.arch, tile.shared_bytes, tile.barriers, tile.constant_bytes) == (
        "sm_90a",
        256,
        1,
        400,
    )
    assert (tile.local_bytes, tile.spill_stores, tile.spill_loads) == (0, 0, 0)
    assert squeezed.registers == 64
    assert 0 < squeezed.local_bytes <= squeezed.spill_stores <= squeezed.spill_loads


def test_resources_of_an_instance() -> None:
    module = weft.cuda(SOURCE)
    assert [module.kernel(f"sized<{n}>").resources.shared_bytes for n in (32, 96)] == [128, 384]


def test_launches_are_held_to_known_registers() -> None:
    wide, x = weft.cuda(SOURCE).wide, np.zeros(128 * 1024, np.float32)
    wide[1, 1024](x)  # nobody has asked yet
    assert wide.resources.registers > 64
    with pytest.raises(weft.LaunchError, match="needs more registers than a block may have"):
        wide[1, 1024](x)
    wide[1, 32](x)


# registers a thread, threads, registers of the block
ALLOCATED = [(32, 256, 8192), (33, 32, 1280), (40, 32, 1280), (255, 256, 65536), (16, 1, 512)]


@pytest.mark.parametrize("registers, threads, total", ALLOCATED)
def test_registers_come_in_units(registers: int, threads: int, total: int) -> None:
    one = weft.cuda("__global__ void k() {}").k.resources
    assert replace(one, registers=registers).registers_for(threads) == total


def test_ptx_is_assembled_by_ptxas() -> None:
    kernel = weft.cuda("__global__ void k(float* y) { y[threadIdx.x] = 1; }").k
    loaded = weft.load_ptx(kernel.ptx).kernel(kernel.entry)
    assert 0 < loaded.resources.registers <= 2 * kernel.resources.registers
    wrong = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { %s ret; }"
    refused = weft.load_ptx(wrong % "setmaxnreg.inc.sync.aligned.u32 40;")
    with pytest.raises(weft.LaunchError, match="ptxas refuses this kernel"):
        _ = refused.kernel("k").resources


def test_without_ptxas_ptx_is_not_assembled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assemble, "_WHEEL", "no-such-wheel")
    monkeypatch.setenv("PATH", "")
    kernel = weft.load_ptx(weft.cuda("__global__ void k() {}").k.ptx).kernel("_Z1kv")
    with pytest.raises(weft.MissingDependency, match="ptxas, which reports"):
        _ = kernel.resources


def test_a_report_that_says_nothing_is_an_error_of_its_own() -> None:
    k = weft.cuda("__global__ void k() {}").k
    silent = Kernel(k.program, k.model, k.entry, k.name, dict)
    with pytest.raises(weft.LaunchError, match="did not say what k needs"):
        _ = silent.resources


HUNGRY = r"""
#include <cooperative_groups.h>
extern "C" __global__ void __launch_bounds__(256) hungry(float* y) {
    float v[96];
    #pragma unroll
    for (int i = 0; i < 96; i++) v[i] = y[i * 256 + threadIdx.x];
    cooperative_groups::this_grid().sync();
    #pragma unroll
    for (int i = 0; i < 96; i++) y[i * 256 + threadIdx.x] = v[i] * v[(i + 1) % 96];
}
"""


@pytest.mark.parametrize("form", ["source", "ptx"])
def test_registers_limit_the_blocks_that_run_at_once(form: str) -> None:
    """A cooperative grid that a GPU refuses for lack of registers is refused here, too."""
    kernel, y = weft.cuda(HUNGRY).hungry, np.ones(96 * 256, np.float32)
    if form == "ptx":
        kernel = weft.load_ptx(kernel.ptx).hungry
    model, registers = kernel.model, kernel.resources.registers
    fits = occupancy(model, threads=256, registers=registers, shared_bytes=0).blocks
    assert registers > 96 and fits == 2  # without its registers an SM would hold 8
    with pytest.raises(
        weft.LaunchError, match="too many blocks for a cooperative launch"
    ) as caught:
        kernel[fits * model.sms + 1, 256](y)
    assert caught.value.allowed.startswith(f"{fits * model.sms}, ")
