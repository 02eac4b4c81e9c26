"""Random programs on the simulated device against the per-thread interpreter, bit for bit.

A failure names its seed and saves the program; WEFT_SEED with the number printed at the top of a
run repeats all of it.
"""

from __future__ import annotations

import os
import random
import struct
import tempfile
from pathlib import Path

import numpy as np
import pytest

import reference
import weft
from programs import SCRATCH, STORED, TABLE_WORDS, Maker
from weft.ptx.parse import parse

SEED = os.environ["WEFT_SEED"]
ROW = STORED + SCRATCH
SHAPES: tuple[tuple[int, int, int], ...] = (
    (32, 1, 1), (1, 1, 1), (64, 1, 1), (33, 1, 1), (31, 1, 1), (7, 1, 1), (70, 1, 1), (8, 4, 1),
    (8, 8, 1), (16, 3, 1), (5, 7, 1), (3, 3, 3), (4, 2, 8), (1, 40, 1), (2, 1, 17), (96, 1, 1),
    (32, 2, 1), (12, 6, 1),
)  # fmt: skip
GRIDS: tuple[tuple[int, int, int], ...] = ((1, 1, 1), (2, 1, 1), (3, 1, 1), (2, 2, 1))


def run_both(text: str, name: str) -> None:
    """Launches a program and interprets it; the outputs must agree in every bit."""
    rng = random.Random(name)
    block, grid = rng.choice(SHAPES), rng.choice(GRIDS)
    threads = int(np.prod(block)) * int(np.prod(grid))
    table = np.array(
        [rng.randrange(1 << 32) >> rng.randrange(32) for _ in range(TABLE_WORDS)], "u4"
    )
    out = np.full(threads * ROW, 0xA5A5A5A5, "u4")
    edges = (0, 1, 5, 31, 0x7FFFFFFF, 0x80000000, 0xFFFFFFF0)
    n, wide = rng.choice(edges), rng.choice((0, 1 << 31, (1 << 32) - 4, 1 << 63, 12345678901))
    buffers = [(int(a.ctypes.data), bytearray(a.tobytes())) for a in (out, table)]
    params = struct.pack("<QQIxxxxQ", buffers[0][0], buffers[1][0], n, wide)
    reference.run(parse(text), "k", grid, block, params, buffers)
    weft.load_ptx(text).k[grid, block](out, table, n, wide, time_limit=20)
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


@pytest.mark.parametrize("name", cases("graph", 60, 1200))
def test_graph(name: str) -> None:
    run_both(Maker(f"{SEED} {name}").graph(), f"{SEED} {name}")


@pytest.mark.parametrize("name", cases("tree", 30, 1000))
def test_tree(name: str) -> None:
    run_both(Maker(f"{SEED} {name}").tree(), f"{SEED} {name}")


@pytest.mark.parametrize("name", cases("straight", 30, 800))
def test_straight(name: str) -> None:
    run_both(Maker(f"{SEED} {name}").straight(), f"{SEED} {name}")
