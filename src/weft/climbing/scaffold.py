"""Implements `weft new ladder NAME`: creates a folder with an operation and two rungs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from weft.errors import ArgumentError

OP = '''"""{name}: say here what it computes."""

import weft

op = weft.Op(
    "{name}",
    "x:f32[n] -> y:f32[n]",  # the arrays: name:type[sizes], inputs -> outputs
    reference=lambda x: 2 * x,  # the right answer, from float64 inputs
    cases=[
        weft.Case(n=4096),  # counted on this one
        weft.Case(n=1000, why="ragged: no whole blocks"),
        weft.Case(n=1),
    ],
    bench=[weft.Case(n=2**26)],  # timed on a GPU
    flops="n",
    bytes="8*n",
    peers=["2 * x", "compile: 2 * x"],  # what people would use instead
)
'''

NAIVE = """// rung:   00 naive
// idea:   a thread for each element
// expect: load sectors per request <= 4
// launch: {name}<<<cdiv(n, 256), 256>>>

__global__ void {name}(const float* x, float* y, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}}
"""

TRITON = '''"""
rung:   01 triton
idea:   the same in Triton
arrays: torch
"""

import triton
import triton.language as tl


@triton.jit
def _{name}(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)


def run(x, y, n):
    _{name}[(triton.cdiv(n, 1024),)](x, y, n, BLOCK=1024)
'''

FILES = {"op.py": OP, "rung_00_naive.cu": NAIVE, "rung_01_triton.py": TRITON}


def new_ladder(name: str, where: Path) -> list[Path]:
    """Creates the folder; raises if it exists."""
    folder = new_folder(name, where, "--in FOLDER")
    return write(folder, {file: text.format(name=name) for file, text in FILES.items()})


def new_folder(name: str, where: Path, options: str) -> Path:
    """Make the folder of a ladder; raise for a bad name, and if it exists.

    options  the command's, by which users choose another one
    """
    if not name.isidentifier():
        raise ArgumentError(
            "a ladder's name is a C++ and Python name", got=repr(name), allowed="e.g. my_softmax"
        )
    folder = where / name
    if folder.exists():
        raise ArgumentError(
            "there is something of this name already",
            got=str(folder),
            next=f"take another name, or another folder: {options}",
        )
    folder.mkdir(parents=True)
    return folder


def write(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write files by their names; return their paths."""
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")
    return [folder / file for file in sorted(texts)]
