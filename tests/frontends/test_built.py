"""`weft nvcc` in place of nvcc: a Makefile, programs, libraries for ctypes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from folders import TESTS
from limits import PROCESS_SECONDS
from weft.errors import CompileError, Error, MissingDependency
from weft.frontends.program import steps
from weft.frontends.program.build import device_options
from weft.frontends.program.nvcc import compiler, toolkit_folder
from weft.source import toolkit

SOURCES = TESTS / "programs" / "built"


def _missing() -> str:
    try:
        toolkit.find()
    except MissingDependency as error:
        return error.what
    return "" if shutil.which("make") else "make was not found"


pytestmark = pytest.mark.skipif(bool(_missing()), reason=_missing() or "nvcc is there")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder that `make` has built."""
    folder = tmp_path_factory.mktemp("built")
    shutil.copytree(SOURCES, folder, dirs_exist_ok=True)
    nvcc = f"NVCC={sys.executable} -m weft nvcc"
    made = _run(["make", nvcc], folder)
    assert made.returncode == 0, made.stderr
    yield folder


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=PROCESS_SECONDS,
        env={**os.environ, "WEFT_DRAFTS": "1"},
    )  # fmt: skip


def test_a_program_of_several_objects_starts_itself(folder: Path) -> None:
    done = _run(["./sums", "3", "4"], folder)
    assert (done.stdout, done.returncode) == ("25\n", 0), done.stderr


def test_weft_run_takes_a_built_program(folder: Path) -> None:
    done = _run([sys.executable, "-m", "weft", "run", "--device", "sim:rtx3070", "sums"], folder)
    assert (done.stdout, done.returncode) == ("-1\n", 1), done.stderr  # an empty grid


CTYPES = """
import ctypes
library = ctypes.CDLL("./libsums.so")
library.sum_of_squares.restype = ctypes.c_float
x = (ctypes.c_float * 40)(*range(40))
print(library.sum_of_squares(x, 40), library.launched())
"""


def test_a_library_is_loaded_by_ctypes(folder: Path) -> None:
    done = _run([sys.executable, "-c", CTYPES], folder)
    assert (done.stdout, done.returncode) == ("20540.0 1\n", 0), done.stderr


def test_a_library_without_python_says_so(folder: Path) -> None:
    (folder / "load.c").write_text(
        '#include <dlfcn.h>\nint main() { return !dlopen("./libsums.so", RTLD_NOW); }\n'
    )
    assert _run(["gcc", "load.c", "-o", "load"], folder).returncode == 0
    done = _run(["./load"], folder)
    assert done.returncode == 70
    assert "load it in Python" in done.stderr


def test_what_makes_no_program_is_nvccs_own(folder: Path) -> None:
    done = _run([sys.executable, "-m", "weft", "nvcc", "--version"], folder)
    assert "Cuda compilation tools" in done.stdout


def test_a_fat_binary_holds_ptx_that_is_not_compressed(tmp_path: Path) -> None:
    source, out = tmp_path / "k.cu", tmp_path / "k.fatbin"
    source.write_text('extern "C" __global__ void k() {}')
    only_machine_code = ["-gencode", "arch=compute_80,code=sm_80"]
    assert compiler.compile(["-fatbin", *only_machine_code, str(source), "-o", str(out)]) == 0
    assert b".entry k(" in out.read_bytes()


# ---- a folder like that of a toolkit -------------------------------------------------------------
@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A toolkit folder."""
    folder = tmp_path_factory.mktemp("toolkit") / "cuda"
    assert toolkit_folder.make(folder) == folder / "bin" / "nvcc"
    return folder


def test_a_toolkit_folder_has_what_build_systems_look_for(made: Path) -> None:
    wanted = [
        "include/cuda_runtime.h",
        "include/cublas_v2.h",
        "lib64/libcudart.so",
        "nvvm/libdevice",
    ]
    assert [name for name in wanted if not (made / name).exists()] == []
    toolkit_folder.make(made)  # again: it is brought up to date


def test_a_folder_of_someone_else_is_not_made_a_toolkit(tmp_path: Path) -> None:
    (tmp_path / "notes").touch()
    with pytest.raises(Error, match="neither empty nor"):
        toolkit_folder.make(tmp_path)


def test_its_nvcc_is_not_taken_for_the_compiler(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{made / 'bin'}:{os.environ['PATH']}")
    assert made not in Path(toolkit.locate("nvcc", toolkit.VARIABLE) or "").parents


def test_a_build_system_is_told_to_link_with_weft(
    made: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WEFT_TOOLKIT", str(made))
    (made / "k.cu").write_text("int main() {}")
    assert toolkit_folder.print_steps([str(made / "k.cu")], toolkit.find()) == 0
    lines = capfd.readouterr().err.splitlines()
    assert f"#$ TOP={made}" in lines
    assert lines[-1].startswith(f"#$ {made / 'bin' / toolkit.LINKER} ")


def test_a_program_without_cuda_is_linked_by_the_host(made: Path) -> None:
    (made / "plain.c").write_text("int main(void) { return 7; }")
    assert _run(["gcc", "-c", "plain.c"], made).returncode == 0
    gcc = shutil.which("gcc")
    assert gcc
    words = ["--host-linker", gcc, str(made / "plain.o"), "-o", str(made / "plain")]
    assert compiler.compile(words) == 0
    assert _run(["./plain"], made).returncode == 7
    assert (made / "plain").read_bytes().startswith(b"\x7fELF")


CMAKE = """
cmake_minimum_required(VERSION 3.18)
project(sums LANGUAGES CXX CUDA)
find_package(CUDAToolkit REQUIRED)
add_library(kernels STATIC sums.cu)
add_executable(sums main.cpp)
target_link_libraries(sums PRIVATE kernels CUDA::cudart)
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake was not found")
def test_cmake_builds_a_program(made: Path, tmp_path: Path) -> None:
    shutil.copytree(SOURCES, tmp_path, dirs_exist_ok=True)
    (tmp_path / "CMakeLists.txt").write_text(CMAKE)
    chosen = f"-DCMAKE_TOOLCHAIN_FILE={made / 'weft.cmake'}"
    for command in (["cmake", "-B", "out", chosen], ["cmake", "--build", "out"]):
        done = _run(command, tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
    done = _run(["out/sums", "3", "4"], tmp_path)
    assert (done.stdout, done.returncode) == ("25\n", 0), done.stderr


# ---- steps of a compilation ----------------------------------------------------------------------
STEPS = """
#ifdef __CUDA_ARCH__
#include "of_device.h"
#else
#include "of_host.h"
#endif
extern "C" __global__ void k() {}
"""


def test_host_and_device_are_compiled_side_by_side(tmp_path: Path) -> None:
    source, out, tools = tmp_path / "k.cu", tmp_path / "k.o", toolkit.find()
    source.write_text(STEPS)
    for name in ("of_device.h", "of_host.h"):
        (tmp_path / name).touch()
    command = [tools.nvcc, *device_options("compute_80")]
    printed, listings = steps.compile(command, str(source), out, tools)
    assert (printed, len(listings)) == ("", 2)
    listed = "".join(listing.read_text() for listing in listings)
    assert "of_device.h" in listed and "of_host.h" in listed
    assert b".entry k(" in out.read_bytes()


def test_an_error_is_shown_once(tmp_path: Path) -> None:
    source, tools = tmp_path / "k.cu", toolkit.find()
    source.write_text("__global__ void k() { nothing(); }")
    command = [tools.nvcc, *device_options("compute_80")]
    with pytest.raises(CompileError) as caught:
        steps.compile(command, str(source), tmp_path / "k.o", tools)
    assert str(caught.value).count('identifier "nothing" is undefined') == 1


def test_what_nvcc_compiles_in_other_steps_is_left_to_it(tmp_path: Path) -> None:
    source, tools = tmp_path / "k.cu", toolkit.find()
    source.write_text("__global__ void k() {}")
    two = [word for n in (80, 90) for word in ("-gencode", f"arch=compute_{n},code=compute_{n}")]
    _, listings = steps.compile([tools.nvcc, *two], str(source), tmp_path / "k.o", tools)
    assert [listing.name for listing in listings] == ["k.d"]
