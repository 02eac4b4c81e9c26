"""Random programs on the simulated device against the per-thread interpreter, bit for bit.

A failure names its seed and saves the program; WEFT_SEED with that seed repeats it.
"""

from __future__ import annotations

import struct
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import reference
import weft
from random_code import SCRATCH, STORED
from random_programs import Maker, setting
from weft.ir.cut import cut
from weft.ptx.parse import parse

ROW = STORED + SCRATCH


def run_both(text: str, name: str) -> None:
    """Launches a program and interprets it; the outputs must agree in every bit."""
    launch = setting(name)
    grid, block, n, wide = launch.grid, launch.block, launch.n, launch.wide
    out, table, threads = launch.out, launch.table, launch.out.size // ROW
    buffers = [(int(a.ctypes.data), bytearray(a.tobytes())) for a in (out, table)]
    params = struct.pack("<QQIxxxxQ", buffers[0][0], buffers[1][0], n, wide)
    reference.run(parse(text), "k", grid, block, params, buffers)
    weft.load_ptx(text).k[grid, block](out, table, n, wide, time_limit=200)
    wanted = np.frombuffer(buffers[0][1], "u4").reshape(threads, ROW)
    wrong = np.argwhere(out.reshape(threads, ROW) != wanted)
    if len(wrong):
        path = Path(tempfile.gettempdir()) / f"weft-fuzz-{name}.ptx".replace(" ", "-")
        path.write_text(text)
        thread, word = wrong[0]
        got, expected = int(out[thread * ROW + word]), int(wanted[thread, word])
        pytest.fail(
            f"{name}: grid {grid}, block {block}, n {n}, wide {wide}: {len(wrong)} words differ, "
            f"first thread {thread} word {word}: {got:#x}, wanted {expected:#x}; see {path}"
        )


def cases(kind: str, default: int, slow: int) -> list[object]:
    quick = [pytest.param(f"{kind} {i}", id=f"{kind}-{i}") for i in range(default)]
    return quick + [
        pytest.param(f"{kind} {i}", id=f"{kind}-{i}", marks=pytest.mark.slow)
        for i in range(default, slow)
    ]


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A program that is made once is not worth keeping."""
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))


@pytest.mark.draws
@pytest.mark.parametrize("name", cases("graph", 20, 1200))
def test_graph(name: str, seed: str) -> None:
    run_both(Maker(f"{seed} {name}").graph(), f"{seed} {name}")


@pytest.mark.draws
@pytest.mark.parametrize("name", cases("tree", 12, 1000))
def test_tree(name: str, seed: str) -> None:
    run_both(Maker(f"{seed} {name}").tree(), f"{seed} {name}")


@pytest.mark.draws
@pytest.mark.parametrize("name", cases("straight", 12, 800))
def test_straight(name: str, seed: str) -> None:
    run_both(Maker(f"{seed} {name}").straight(), f"{seed} {name}")


@pytest.mark.draws
@pytest.mark.parametrize("name", cases("cut", 2, 300))
def test_cut(name: str, seed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Full code in functions of a few lines, as large kernels have it."""
    monkeypatch.setenv("WEFT_DRAFTS", "0")
    monkeypatch.setattr("weft.ir.cut.cut", partial(cut, large=0, part=100))
    run_both(Maker(f"{seed} {name}").graph(), f"{seed} {name}")
