"""Headers that a process reads once: what is compiled with them is what is compiled without."""

from __future__ import annotations

import os
import subprocess
import tempfile
import warnings
from pathlib import Path

import pytest

import weft
from weft.source import compile_cuda, nvrtc, precompiled
from weft.source.unit import make_unit

HEAD = "#include <cuda_fp16.h>\n"
SOURCE = HEAD + "__global__ void k(__half* x) {{ x[0] = __hadd(x[0], __float2half({}.0f)); }}\n"
ARCH = "compute_80"


@pytest.fixture
def used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each call of NVRTC, whether it writes or uses precompiled headers; nothing is cached."""
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    precompiled._known.clear()
    calls: list[bool] = []
    compile = nvrtc._compile

    def recorded(source: str, name: str, options: list[str], names: list[str]) -> nvrtc.NvrtcOutput:
        calls.append("--pch" in options)
        return compile(source, name, options, names)

    monkeypatch.setattr(nvrtc, "_compile", recorded)
    return calls


def test_the_third_source_uses_what_the_second_has_written(used: list[bool]) -> None:
    made = [compile_cuda(SOURCE.format(i), arch=ARCH) for i in range(4)]
    assert used == [False, True, True, True]
    (headers,) = precompiled._known.values()
    assert headers.ready and len(os.listdir(headers.folder)) == 1
    precompiled._known.clear()
    again = nvrtc.compile(SOURCE.format(3), "kernel.cu", _options())
    assert made[3].text == again.ptx.replace(os.path.abspath("kernel.cu"), "kernel.cu")


def test_large_headers_are_written_by_the_third_source(
    used: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precompiled, "LONG", 0.0)
    for i in range(4):
        compile_cuda(SOURCE.format(i), arch=ARCH)
    assert used == [False, False, True, True]


def _options() -> list[str]:
    unit = make_unit(SOURCE, "kernel.cu", [], [], [])
    return [f"--gpu-architecture={ARCH}", "--std=c++17", "-lineinfo", *unit.options]


def test_messages_are_as_usual(used: list[bool]) -> None:
    for i in range(3):
        compile_cuda(SOURCE.format(i), arch=ARCH)
    with pytest.raises(weft.CompileError, match='identifier "oops" is undefined') as caught:
        compile_cuda(SOURCE.format("oops"), arch=ARCH)
    assert caught.value.where.endswith("kernel.cu:2")
    compile_cuda(SOURCE.format(7), arch=ARCH)
    assert used == [False, True, True, True, False, True], "a mistake changes nothing"
    with pytest.warns(weft.CompileWarning, match=r"kernel.cu:3: variable \"unused\" was declared"):
        compile_cuda(SOURCE.format(8) + "__global__ void w() { int unused; }\n", arch=ARCH)


def test_a_changed_header_is_read_again(used: list[bool], tmp_path: Path) -> None:
    header = tmp_path / "own.h"
    seen = []
    for number in (1, 2):
        header.write_text(f"#define N {number}\n")
        for i in range(3):
            source = f'#include "own.h"\n__global__ void k(int* x) {{ *x = 1000 * N + {i}; }}\n'
            text = compile_cuda(source, arch=ARCH, include=[tmp_path]).text
            seen.append(f", {1000 * number + i};" in text)
    assert all(seen) and used == [False, True, True] * 2


def test_a_header_that_warns_warns_each_time(used: list[bool], tmp_path: Path) -> None:
    (tmp_path / "noisy.h").write_text("__device__ inline int f() { int unused; return 1; }\n")
    logs = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(3):
            source = f'#include "noisy.h"\n__global__ void k(int* x) {{ *x = f() + {i}; }}\n'
            logs.append(compile_cuda(source, arch=ARCH, include=[tmp_path]).warnings)
    assert all(logs) and used == [False] * 3


def test_the_oldest_are_removed(used: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precompiled, "MOST_BYTES", 1)
    folders = []
    for define in ("A", "B"):
        for i in range(2):
            compile_cuda(SOURCE.format(i), arch=ARCH, defines={define: 1})
        folders += [x.folder for x in precompiled._known.values() if x.ready]
    assert [os.path.isdir(folder) for folder in folders] == [False, True]
    assert used == [False, True] * 2


def test_a_full_disk_is_no_error(used: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(process: int) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(precompiled, "_root", full)
    for i in range(3):
        compile_cuda(SOURCE.format(i), arch=ARCH)
    assert used == [False] * 3


def test_folders_of_killed_processes_are_removed(
    used: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    dead = subprocess.Popen(["true"])
    dead.wait()
    left, alive, other = (
        tmp_path / f"weft-headers-{name}" for name in (f"{dead.pid}-x", f"{os.getpid()}-x", "x")
    )
    for folder in (left, alive, other):
        folder.mkdir()
        (folder / "kernel.pch").touch()
    precompiled._remove_leftovers()
    assert [folder.exists() for folder in (left, alive, other)] == [False, True, True]
