"""Whole CUDA programs on the simulated GPU: what they print, and how they end."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import nvcc
from folders import TESTS
from limits import PROCESS_SECONDS
from weft import sanitize as weft_sanitize
from weft.errors import CompileError, Error, LaunchError, MissingDependency
from weft.frontends import program
from weft.frontends.program import build
from weft.source import toolkit

PROGRAMS = TESTS / "programs"


pytestmark = nvcc.needed


@dataclasses.dataclass(frozen=True)
class Row:
    """A program, what it is given, and what must come out: all of stdout, parts of stderr."""

    file: str
    out: str
    code: int = 0
    args: tuple[str, ...] = ()
    err: tuple[str, ...] = ()
    device: str = "sim"
    gpus: int = 1
    flags: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join([Path(self.file).stem, *self.args])


UNSIGNED_CHARS = ("-Xcudafe", "--unsigned_chars", "-Xcompiler", "-funsigned-char")
ROWS = (
    Row("unified.cu", "worst difference 0, launches 12 12\n"),
    Row("streams.cu", "20000 elements, 104 calls\n"),
    Row(
        "events.cu",
        "sum 2534400\n",
        err=("times between events are those of the simulation, not of a GPU",),
    ),
    Row("symbols.cu", "110 130 160 160 110 130 160 160 counter 8\n"),
    Row("transforms.cu", "transforms agree\n"),
    Row("network.cu", "a layer agrees\n"),
    Row("two_gpus.cu", "two GPUs\n", gpus=2),
    # Threads of streams list the memory while the host allocates more.
    Row("growing.cu", "300 launches in each stream\n"),
    Row(
        "processes.cu",
        "forked: 3\nchild: shared\nparent: 6 9\n",
        err=("is memory that another call opened or mapped",),
    ),
    Row("pools.cu", "pools count\n", gpus=2),
    Row("kinds_of_pools.cu", "pools of all kinds\n"),
    Row("producers.cu", "all launches ran\n"),
    Row("virtual.cu", "mapped\n", err=("no memory is mapped there: cuMemMap maps some",), gpus=2),
    Row(
        "virtual.cu",
        "cudaErrorIllegalAddress\n",
        args=("none",),
        gpus=2,
        err=("virtual.cu:14", "is mapped, but may not be accessed: cuMemSetAccess gives access"),
    ),
    Row(
        "virtual.cu", "cudaErrorIllegalAddress\n", args=("read",), gpus=2, err=("may only be read",)
    ),
    Row("lt.cu", "layers and factors agree\n"),
    Row(
        "tensor_maps.cu",
        "made 0, refused 1\n79 80 91 92\n103 208 230 116\n223 448 470 236\nreplaced 0, 192\n",
        device="sim:h200",
        err=("a tensor map is refused: the innermost dimension of the box: 12 bytes",),
    ),
    Row(
        "driver.cpp",
        "CUDA_ERROR_INVALID_VALUE on sm_86\n",
        device="sim:rtx3090",
        err=("cuMulticastCreate is not served by weft",),
    ),
    Row("linking.cpp", "linked\n", err=("nvJitLink: LTO-IR cannot be linked",)),
    Row(
        "cuda12.cu",
        "12, 1 edge, 1 parent, 1980000 kHz, mode 0\n",
        flags=("--cuda", "12", "-w"),
        device="sim:h100",
    ),
    Row("clearing.cu", "64 bytes left\n1 bytes left\n"),
    Row("chars.cu", "device -128 -3, host -128 -3\n"),
    Row("chars.cu", "device 0 253, host 0 253\n", args=("unsigned",), flags=UNSIGNED_CHARS),
    Row("pitched.cu", "rows and planes are in place\n"),
    Row("cooperative.cu", "499967 of 499967\n", err=("sum: 1585 blocks, room for 1584 at once",)),
    Row(
        "clusters.cu",
        "58 clusters of 16, 132 of 2\n",
        err=("rotate: the cluster does not divide the grid", "fours was compiled for another"),
    ),
    Row("graph.cu", "captured: 6 nodes, 3 runs\nbuilt: 10\n"),
    Row("blas.cu", "cuBLAS agrees\n"),
    Row("random.cu", "random enough\n"),
    Row(
        "hello.cu",
        "host: before\n"
        "device: block 0 of 2, thread  0, weft, 0.000 1099511627776 0xff x\n"
        "device: block 1 of 2, thread  0, weft, 0.500 1099511627776 0xff x\n"
        "host: after\n",
    ),
    Row(
        "out_of_bounds.cu",
        "an illegal memory access was encountered\nafter the reset: 1\n",
        code=5,
        err=(
            "out_of_bounds.cu:6  `x[i] += 1;  // if (i < n) is missing`: out-of-bounds read",
            "block (3, 0, 0), thread (232, 0, 0)",
            "(4000 bytes): 4 bytes past its end",
        ),
    ),
    Row(
        "out_of_bounds.cu",
        "",
        code=70,
        args=("quietly",),
        err=("a kernel failed and the program never asked: exit code 70",),
    ),
    Row(
        "out_of_bounds.cu",
        "",
        code=70,
        args=("copies",),
        err=("a kernel failed and the program never asked: exit code 70",),
    ),
    Row(
        "traps.cu",
        "trap: cudaErrorLaunchFailure\nassert: cudaErrorAssert\n"
        "misaligned: cudaErrorMisalignedAddress\ndeadlock: cudaErrorLaunchTimeout\n",
        err=("traps.cu:7", "traps.cu:10: assertion `x[0] == 1` failed", "traps.cu:11"),
    ),
    Row(
        "asynchronous.cu",
        "launched: 1\ndone: 1\nanother thread\nmet: 1 1\ncopied\nbefore: 0 0 1\nafter: 2 5 41\n"
        "in order: 11\nkernel 1\nhost\nkernel 2\ncudaErrorIllegalAddress\n",
        err=("asynchronous.cu:21",),
    ),
    Row("host_flag.cu", "cudaErrorLaunchTimeout\n", err=("host_flag.cu:6", "deadlocked")),
    Row(
        "unasked_grid.cu",
        "128 threads\ncudaSuccess\ncudaErrorCooperativeLaunchTooLarge\ncudaErrorLaunchFailure\n",
        err=("5000 blocks, room for 264 at once", "unasked_grid.cu:9"),
    ),
    Row(
        "memory.cu",
        "memory is checked\n",
        err=(
            "is not in device memory",
            "1028 bytes at byte 0 of an allocation of 1024",
            "cudaMalloc: 1073741824 bytes, which the simulated GPU has and this machine has not",
        ),
    ),
    Row(
        "device.cu",
        "NVIDIA GeForce RTX 3070 (weft), 8.6, 46 SMs, 8192 MiB\n",
        device="sim:rtx3070",
        err=("bounded: 512 threads a block, compiled for 256", "cudaFuncSetAttribute"),
    ),
    Row(
        "unserved.cu",
        "nvjpeg gives 10\nlibraries refuse\n",
        err=(
            "cusolverSpCreate is not served by weft",
            "cufftXtSetCallback is not served by weft",
            "cudaImportExternalMemory is not served by weft",
            "nvjpegCreateSimple is not served by weft",
        ),
    ),
    Row("unsimulated.cu", "went on\n", code=70, err=("unsimulated.cu:5", "exit code 70")),
    Row("crash.cu", "ready\n", code=139, args=("segv",), err=("ended by SIGSEGV",)),
    Row("crash.cu", "ready\n", code=134, args=("abort",), err=("ended by SIGABRT",)),
    Row("crash.cu", "ready\n", code=9, args=("quick",)),
)


COURSE_ROWS = (Row("course/pipeline.cu", "0 wrong\n"),)
SLOW_ROWS = (  # as courses hand them out
    Row("course/matmul.cu", "PASSED\n", err=("GFLOP/s",)),
    Row("course/linked_list.cu", "device: 45150, first is now 600\nallocated on the device: 240\n"),
    Row("course/histogram.cu", "0 bins differ; the first holds 26171\n"),
    Row("course/nbody.cu", "energy is kept: yes\n"),
    Row(
        "course/life.cu",
        " 4 ....#...........................\n"
        " 5 .....#..........................\n"
        " 6 ...###..........................\n",
    ),
    Row("course/reduce.cu", "interleaved ok\nsequential  ok\nshuffled    ok\n"),
    Row("course/pi.cu", "pi is about 3.1\n"),
    Row("course/heat.cu", "642 steps, centre 21.55\n"),
    Row("course/sort.cu", "sorted: yes\nscanned and turned: yes\n"),
    Row("library.cu", "sum 332833500\n"),
)


@pytest.mark.parametrize(
    "row",
    [
        *(pytest.param(row, id=str(row)) for row in (*ROWS, *COURSE_ROWS)),
        *(pytest.param(row, id=str(row), marks=pytest.mark.slow) for row in SLOW_ROWS),
    ],
)
def test_program(row: Row, capfd: pytest.CaptureFixture[str]) -> None:
    how = {"device": row.device, "gpus": row.gpus, "flags": row.flags}
    code = program.run(str(PROGRAMS / row.file), row.args, **how)
    out, err = capfd.readouterr()
    assert (out, code) == (row.out, row.code), err
    assert [part for part in row.err if part not in err] == [], err


def test_a_program_for_cuda_12_is_told_so() -> None:
    with pytest.raises(CompileError, match="--cuda 12"):
        program.run(str(PROGRAMS / "cuda12.cu"), ())


def weft(*arguments: str, **how: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "weft", "run", *arguments]
    return subprocess.run(command, capture_output=True, text=True, **how)  # type: ignore[call-overload, no-any-return]


def test_arguments_and_standard_input_are_the_programs_own() -> None:
    done = weft(str(PROGRAMS / "arguments.cu"), "--gpu", "b c", input="1 2 3\n")
    assert done.stdout == "[--gpu][b c] sum of squares 14\ndestroyed\n"
    # A first run says before that it compiles.
    assert (done.stderr.splitlines()[-1], done.returncode) == ("to standard error", 3)


@pytest.mark.slow
def test_mandelbrot_reads_its_window() -> None:
    file = str(PROGRAMS / "course" / "mandelbrot.cu")
    done = weft(file, input="9 5 -2 0.6 -1.2 1.2")
    assert done.stdout == "    ..   \n  ..+**. \n.********\n  ..+**. \n    ..   \n"
    assert weft(file, input="9 5").returncode == 2


def test_the_sanitizer_sees_into_a_program() -> None:
    with weft_sanitize(raises=False) as report:
        assert program.run(str(PROGRAMS / "races.cu"), []) == 0
    assert report.launches == 2 and report.findings
    assert "races.cu:7" in str(report.findings[0])


def test_the_sanitizer_by_the_environment(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WEFT_SANITIZE", "1")
    assert program.run(str(PROGRAMS / "races.cu"), []) == 70
    err = capfd.readouterr().err
    assert "races.cu:7" in err and "the sanitizer has findings: exit code 70" in err


def test_weft_run_sanitizes() -> None:
    done = weft("--sanitize", str(PROGRAMS / "races.cu"))
    assert done.returncode == 70 and "races.cu:7" in done.stderr


def test_the_sanitizer_finds_what_is_not_freed() -> None:
    with weft_sanitize(raises=False) as report:
        assert program.run(str(PROGRAMS / "leaks.cu"), []) == 0
    told = [(f.kind, f.accesses[0].verb, f.times) for f in report.findings]
    assert told == [
        ("double free", "cudaFree", 1),
        ("invalid free", "cudaFree", 1),
        ("invalid free", "cudaFree", 1),
        ("leak", "cudaMalloc", 1),
        ("leak", "cudaMallocManaged", 3),
    ]
    said = str(report)
    assert "leaks.cu: leak: memory of the device that is never freed" in said
    assert "cudaMalloc: allocation 1 of leaks.cu\n  at: 256 bytes" in said
    assert report.launches == 1
    with weft_sanitize() as clean:
        assert program.run(str(PROGRAMS / "leaks.cu"), ["free"]) == 0
    assert clean.launches == 1


def test_a_leak_alone_ends_with_70(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WEFT_SANITIZE", "1")
    assert program.run(str(PROGRAMS / "leaks.cu"), []) == 70
    err = capfd.readouterr().err
    assert "double free: the memory was freed before" in err and "allocation 3" in err
    assert program.run(str(PROGRAMS / "leaks.cu"), ["free"]) == 0
    assert program.run(str(PROGRAMS / "out_of_bounds.cu"), ["do not look"]) == 70
    assert "leak" not in capfd.readouterr().err, "after a dead kernel nothing can be freed"


# ---- building -----------------------------------------------------------------------------------
SEVERAL = ("--with", "twice.cu", "--with", "name.cpp", "-I", "include", "-DFIRST=10", "-std=c++20")


@pytest.mark.parametrize(
    "how",
    [
        pytest.param((*SEVERAL, "-O2"), id="units of their own"),
        pytest.param(
            (*SEVERAL, "-DAPART", "--nvcc=-rdc=true", "--with", "apart.cu"), id="relocatable"
        ),
    ],
)
def test_several_files_and_flags(how: tuple[str, ...]) -> None:
    done = weft(*how, "-lcudart", "--nvcc=-arch=sm_70", "main.cu", cwd=PROGRAMS / "several")
    assert (done.stdout, done.returncode) == ("1020 1022 1024 1026, from C++\n", 0), done.stderr


def test_what_is_wrong_is_said_before_anything_runs(tmp_path: Path) -> None:
    source = tmp_path / "wrong.cu"
    source.write_text("int main() { return missing; }\n")
    with pytest.raises(CompileError, match=r"wrong.cu\(1\): error: .*missing.* is undefined"):
        program.run(str(source), [])
    source.write_text("void gone(); int main() { gone(); }\n")
    with pytest.raises(CompileError, match="undefined reference to `gone"):
        program.run(str(source), [])
    source.write_text("__global__ void k() {}\n")
    with pytest.raises(CompileError, match="the program has no main"):
        program.run(str(source), [])
    with pytest.raises(Error, match="no such file"):
        program.run(str(tmp_path / "nothing.cu"), [])
    with pytest.raises(LaunchError, match="no such device"):
        program.run(str(source), [], device="sim:rtx9999")
    with pytest.raises(LaunchError, match="simulated GPU alone"):
        program.run(str(source), [], device="gpu")


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], None]]:
    """Takes another nvcc."""
    toolkit.find.cache_clear()
    yield lambda path: monkeypatch.setenv("WEFT_NVCC", str(path))
    toolkit.find.cache_clear()


def test_a_missing_compiler_is_named(compiler: Callable[[Path], None]) -> None:
    compiler(Path("/nowhere/nvcc"))
    words = r"not found(?s:.*)WEFT_NVCC=/nowhere/nvcc(?s:.*)pip install '.*\[nvcc\]'"
    with pytest.raises(MissingDependency, match=words):
        program.run(str(PROGRAMS / "hello.cu"), [])


def script(folder: Path, command: str) -> Path:
    """A program that starts another one in its place, as packages of systems install nvcc."""
    path = folder / "bin" / "nvcc"
    path.parent.mkdir(parents=True)
    path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    path.chmod(0o755)
    return path


def test_a_script_that_starts_nvcc(compiler: Callable[[Path], None], tmp_path: Path) -> None:
    """The headers are those of the nvcc that it starts."""
    known = toolkit.find()
    toolkit.find.cache_clear()
    compiler(script(tmp_path, known.nvcc))
    found = toolkit.find()
    assert os.path.samefile(found.nvcc, known.nvcc) and found.root == known.root
    assert os.path.samefile(found.include, known.include)


@pytest.mark.parametrize("command", ["/nowhere/nvcc", "sh -c 'exit 3'"])
def test_a_script_that_starts_none(
    command: str, compiler: Callable[[Path], None], tmp_path: Path
) -> None:
    """The error says what came of it."""
    broken = script(tmp_path, command)
    compiler(broken)
    said = r"nowhere/nvcc.*" if "nowhere" in command else "exit code 3"
    with pytest.raises(MissingDependency, match=rf"bin/nvcc cannot compile(?s:.*){said}") as caught:
        toolkit.find()
    assert "set WEFT_NVCC to another nvcc" in str(caught.value)


def test_a_file_that_does_not_start(compiler: Callable[[Path], None], tmp_path: Path) -> None:
    """A compiler of another machine: the error is one of weft."""
    broken = script(tmp_path, "")
    broken.write_text("no program")
    compiler(broken)
    with pytest.raises(MissingDependency, match=r"bin/nvcc cannot compile(?s:.*)format"):
        toolkit.find()


def test_the_ptx_of_a_program(tmp_path: Path) -> None:
    out = tmp_path / "hello.ptx"
    command = [sys.executable, "-m", "weft", "ptx", str(PROGRAMS / "hello.cu"), "-o", str(out)]
    subprocess.run([*command, "--json"], check=True, capture_output=True)
    assert ".entry _Z5helloPKc" in out.read_text() and ".target sm_90a" in out.read_text()


def test_the_output_of_a_program_is_not_among_the_json_of_a_check() -> None:
    command = [sys.executable, "-m", "weft", "check", "--sanitize", "--json"]
    done = subprocess.run([*command, str(PROGRAMS / "hello.cu")], capture_output=True, text=True)
    assert json.loads(done.stdout)["exit_code"] == 0
    assert "device: block 1 of 2" in done.stderr


def test_new_memory_holds_zeros_or_a_pattern(capfd: pytest.CaptureFixture[str]) -> None:
    path = str(PROGRAMS / "fresh.cu")
    assert program.run(path, []) == program.run(path, [], poison=True) == 0
    assert capfd.readouterr().out == "0 0\n" * 2 + "cdcdcdcd cdcdcdcd\n" * 2


def test_the_number_of_gpus_is_limited() -> None:
    with pytest.raises(LaunchError, match="number of GPUs"):
        program.run(str(PROGRAMS / "fresh.cu"), [], gpus=65)


@pytest.mark.parametrize("verb", [["run"], ["check", "--sanitize"]], ids=" ".join)
def test_verbs_take_the_same_options(verb: list[str]) -> None:
    options = ["-DSHOW", "-O0", "--nvcc=-Xcompiler=-Wno-unused", "--args", "'one word'"]
    command = [sys.executable, "-m", "weft", *verb, *options, str(PROGRAMS / "fresh.cu")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PROCESS_SECONDS)
    assert "1 argument: one word\n" in done.stdout, done.stderr


# ---- the cache ----------------------------------------------------------------------------------
RETURNS = '#include "value.h"\nint main() { return VALUE; }\n'


def test_a_changed_header_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, header = tmp_path / "returns.cu", tmp_path / "value.h"
    source.write_text(RETURNS)
    header.write_text("#define VALUE 3\n")
    assert program.run(str(source), []) == 3
    compiled: list[str] = []
    link, compile = toolkit.Toolkit.call, build.compile_in_steps

    def linked(self: toolkit.Toolkit, command: list[str], *, what: str) -> str:
        compiled.append(what)
        return link(self, command, what=what)

    def noted(command: list[str], file: str, *more: Any) -> Any:
        compiled.append(f"compile {file}")
        return compile(command, file, *more)

    monkeypatch.setattr(toolkit.Toolkit, "call", linked)
    monkeypatch.setattr(build, "compile_in_steps", noted)
    assert program.run(str(source), []) == 3
    assert compiled == []
    header.write_text("#define VALUE 4\n")
    assert program.run(str(source), []) == 4
    assert compiled == [f"compile {source}", "link the program"]
    assert program.run(str(source), [], flags=["-DUNUSED"]) == 4
    assert len(compiled) == 4
    header.write_text("#define VALUE 3\n")  # the first program is still there
    assert program.run(str(source), []) == 3
    assert len(compiled) == 4


# ---- signals ------------------------------------------------------------------------------------
def _started(how: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "weft", "run", str(PROGRAMS / "crash.cu"), how]
    process = subprocess.Popen(command, stdout=-1, stderr=-1, text=True, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("how", ["host", "device"])
def test_ctrl_c_ends_a_loop(how: str) -> None:
    process = _started(how)
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, err = process.communicate(timeout=PROCESS_SECONDS)
    said = err.removeprefix("weft: compiling crash.cu (first run)\n")  # with an empty cache
    assert (process.returncode, said) == (130, "weft: interrupted\n")


def test_a_signal_to_weft_reaches_the_program() -> None:
    process = _started("host")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PROCESS_SECONDS)
    assert process.returncode == 143


def test_a_killed_run_leaves_nothing_behind() -> None:
    process = _started("host")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.kill()
    process.communicate(timeout=PROCESS_SECONDS)
    end = time.monotonic() + PROCESS_SECONDS
    while any(_runs(child) for child in children) and time.monotonic() < end:
        time.sleep(0.05)
    assert children and not any(_runs(child) for child in children)
    assert program.run(str(PROGRAMS / "crash.cu"), []) == 0


def _runs(process: str) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")")[1].split()[0] != "Z"
    except OSError:
        return False
