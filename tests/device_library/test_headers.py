"""The device library as a whole: sources find it, and a header has a test of each function."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import everyday
import nvcc
from folders import TESTS
from weft.device import models
from weft.frontends import program
from weft.frontends.program.build import build
from weft.lab import includes
from weft.source import compile_cuda, headers, toolkit

FOLDER = Path(headers.DEVICE_LIBRARY, "weft")
NAMES = sorted(path.stem for path in FOLDER.glob("*.cuh"))
FUNCTION = re.compile(r"__device__ [^;(){}=]*?(\w+)(?:<[^<>()]*>)?\([^)]*\)[^;{]*\{")
"""A function that is defined; constructors are named like their struct."""
PROGRAM = """
#include <cstdio>
#include <weft/warp.cuh>
__global__ void sum(int* y) { *y = weft::warp_sum(int(threadIdx.x)); }
int main() {
    int* y;
    cudaMallocManaged(&y, 4);
    sum<<<1, 32>>>(y);
    cudaDeviceSynchronize();
    printf("%d\\n", *y);
}
"""


def own(text: str) -> str:
    """Without comments."""
    return re.sub(r"//[^\n]*", "", text)


@pytest.mark.parametrize("name", NAMES)
def test_a_header_has_a_test_that_calls_every_function(name: str) -> None:
    assert (TESTS / "device_library" / f"test_{name}.py").is_file()
    text = own((FOLDER / f"{name}.cuh").read_text())
    kernels = own((everyday.SOURCES / "device_library" / f"{name}.cu").read_text())
    functions = set(FUNCTION.findall(text)) - {"operator"}
    assert functions
    called = kernels + FUNCTION.sub("", text)  # by a kernel, or by another function of the header
    assert {f for f in functions if not re.search(rf"\b{f}\b", called)} == set()


@pytest.mark.parametrize("name", NAMES)
def test_what_a_header_needs_it_includes(name: str) -> None:
    """Alone, for the oldest architecture that NVRTC knows; tests of functions use a newer one."""
    compile_cuda(f"#include <weft/{name}.cuh>\n__global__ void k() {{}}\n", arch="sm_75")


def test_a_changed_header_is_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "weft").mkdir()
    header = tmp_path / "weft" / "own.cuh"
    monkeypatch.setattr(headers, "DEVICE_LIBRARY", str(tmp_path))
    headers.folders.cache_clear()
    try:
        texts = []
        for number in (1234, 4321, 4321):
            header.write_text(f"#define NUMBER {number}\n")
            source = "#include <weft/own.cuh>\n__global__ void k(int* y) { *y = NUMBER; }\n"
            texts.append(compile_cuda(source, arch="sm_80").text)
    finally:
        headers.folders.cache_clear()
    assert "1234" in texts[0] and "4321" in texts[1] == texts[2]


@nvcc.needed
@pytest.mark.sim
def test_a_whole_program(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The headers that it read are listed: a change builds the program anew."""
    source = tmp_path / "sum.cu"
    source.write_text(PROGRAM)
    arch = models.get(models.DEFAULT).compile_for
    built = build([str(source)], [], arch, toolkit.find())
    assert {str(source), str(FOLDER / "warp.cuh"), str(FOLDER / "math.cuh")} <= set(built.files)
    assert program.run(str(source), ()) == 0
    assert capfd.readouterr().out == "496\n"


def test_the_lab_includes_it(tmp_path: Path) -> None:
    includes.refuse("#include <weft/warp.cuh>\n", "kernel.cu", [str(tmp_path)])
