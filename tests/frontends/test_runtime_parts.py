"""The runtime library of programs: its parts, and the containers of its core."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import nvcc
from limits import PROCESS_SECONDS
from weft.frontends.program import parts, stubs
from weft.frontends.program.library import runtime_library
from weft.frontends.program.parts import CORE
from weft.source import toolkit

pytestmark = nvcc.needed
FOLDERS = ("textures", "driver")


@pytest.mark.parametrize(
    ("symbols", "wanted"),
    [
        (["cudaMalloc", "cudaMemcpy", "__cudaRegisterFatBinary", "main"], [CORE]),
        (["cudaGraphLaunch"], [CORE, "textures", "graphs"]),
        (["cudaStreamBeginCapture"], [CORE, "textures", "graphs"]),
        (["cudaCreateTextureObject"], [CORE, "textures"]),
        (["cuTexObjectCreate", "cuArray3DCreate_v2"], [CORE, "textures"]),
        (["cuLaunchKernel"], [CORE, "textures", "graphs", "processes", "driver"]),
        (["cudaIpcGetMemHandle"], [CORE, "processes"]),
        (["execvp", "fork"], [CORE, "processes"]),
        (["cublasXtSgemm"], [CORE, "cublas", "cublasxt"]),
        (["cublasLtMatmul", "ncclSend"], [CORE, "cublaslt", "nccl"]),
        (["cudaNoSuchFunction"], [CORE]),
    ],
)
def test_a_program_gets_the_parts_that_it_calls(symbols: list[str], wanted: list[str]) -> None:
    assert list(parts.needed(symbols)) == wanted


LOAD = """
import ctypes, os, sys
for line in sys.stdin:
    part, *files = line.split()
    child = os.fork()
    if child == 0:
        for file in files:
            ctypes.CDLL(file, mode=os.RTLD_GLOBAL | os.RTLD_NOW)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit(f"{part} cannot be loaded")
"""


def test_each_part_has_its_functions_and_what_it_needs(tmp_path: Path) -> None:
    images = dict(zip(parts.names(), runtime_library(toolkit.find(), parts.names()), strict=True))
    lines = []
    for part, data in images.items():
        file = tmp_path / part
        file.write_bytes(data)
        listed = subprocess.run(
            ["nm", "--dynamic", "--defined-only", file], capture_output=True, text=True, check=True
        )
        names = {line.split()[-1] for line in listed.stdout.splitlines()}
        others = ("_Z", "weft_", "__start_", "__stop_")  # also the linker's ends of sections
        functions = {name for name in names if not name.startswith(others)}
        assert len(functions) > 5 or part == parts.TRACED
        elsewhere = {name for name in functions if part not in parts.needed([name])}
        assert not elsewhere, f"a program that calls them does not get {part}"
        before = min((parts.needed([name]) for name in functions), key=len)
        # What comes before it in the list is what it needs.
        lines.append(" ".join([part, *(str(tmp_path / each) for each in before)]))
    done = subprocess.run(
        [sys.executable, "-c", LOAD], input="\n".join(lines), capture_output=True, text=True,
        timeout=PROCESS_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_every_function_of_the_driver_is_served_or_a_stub(tmp_path: Path) -> None:
    tools = toolkit.find()
    header = str(Path(tools.include) / "cuda.h")
    command = [tools.host, "-E", "-P", "-x", "c++", f"-I{tools.include}", header]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    declared = set(re.findall(r"CUresult (cu[A-Z]\w+)\(", text))
    assert len(declared) > 400
    exported = set()
    for part, data in zip(FOLDERS, runtime_library(tools, FOLDERS), strict=True):
        (tmp_path / part).write_bytes(data)
        exported |= stubs.symbols(["--dynamic", "--defined-only", str(tmp_path / part)])
    # A newer version of a function that weft has would be found by name before it.
    newer = {name for name in declared - exported if not exported & {name[:-3], f"{name[:-1]}2"}}
    assert newer == set()
    assert "cuCtxGetDevice" in exported and "cuCtxGetDevice_v2" not in exported


TABLES = """
#include <cstdio>
#include <map>
#include <random>

#include "containers.h"

int main() {
    std::mt19937 random(7);
    std::map<uint64_t, int> expected;
    static weft::Table<int> table;  // as those of the library: it is never destroyed
    for (int step = 0; step < 20000; step++) {
        uint64_t key = random() % 500;
        auto after = expected.upper_bound(key);
        auto *above = table.after(key);
        if ((after == expected.end()) != !above || (above && above->key != after->first)) return 1;
        auto *below = table.at_or_before(key);
        if ((after == expected.begin()) != !below) return 2;
        if (below && below->key != std::prev(after)->first) return 3;
        if (below && below->value != std::prev(after)->second) return 4;
        if (random() % 3) {
            expected[key] = table[key] = step;
        } else if (table.erase(key) != bool(expected.erase(key))) {
            return 5;
        }
        if (bool(table.find(key)) != bool(expected.count(key))) return 6;
    }
    auto other = expected.begin();
    for (auto &row : table) {
        if (other == expected.end() || row.key != other->first || row.value != other->second)
            return 7;
        ++other;
    }
    weft::Array<weft::Array<int>> rows{{1}, {2, 3}};
    for (int i = 0; i < 100; i++) rows.push_back(rows[1]);
    rows.resize(50);
    return other != expected.end() || rows.size() != 50 || rows.back()[1] != 3;
}
"""


def test_tables_of_the_core_are_ordered_maps(tmp_path: Path) -> None:
    source, program = tmp_path / "tables.cpp", tmp_path / "tables"
    source.write_text(TABLES)
    compiler = shutil.which("g++")
    assert compiler
    files = [str(source), str(parts.SHIM / "containers.cpp"), f"-I{parts.SHIM}"]
    checks = ["-std=c++17", "-fsanitize=address,undefined"]
    subprocess.run([compiler, *checks, *files, "-o", str(program)], check=True)
    assert subprocess.run([program]).returncode == 0
