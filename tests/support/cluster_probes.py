"""Kernels that show what clusters of blocks do, for a GPU and for the simulated one alike.

`answers(run)` launches all of them and returns their results by name; `run` allocates, launches and
copies back. scripts/record_clusters.py records the answers of a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SOURCE = Path(__file__).with_suffix(".cu").read_text()
ARCH = "sm_90a"

Dims = tuple[int, int, int]
Answer = NDArray[np.int32]
Run = Callable[[str, Dims, int, Dims | None, int, Sequence[int]], Answer]
"""(kernel, grid, threads, cluster, words of the result, further arguments) -> the result."""

SHAPES: list[tuple[Dims, Dims | None]] = [
    ((6, 1, 1), None),
    ((2, 3, 2), None),
    ((6, 1, 1), (1, 1, 1)),
    ((8, 1, 1), (2, 1, 1)),
    ((8, 1, 1), (8, 1, 1)),
    ((16, 1, 1), (16, 1, 1)),
    ((9, 1, 1), (3, 1, 1)),
    ((14, 1, 1), (7, 1, 1)),
    ((4, 6, 1), (2, 3, 1)),
    ((6, 4, 1), (3, 2, 1)),
    ((1, 8, 1), (1, 4, 1)),
    ((2, 2, 6), (1, 1, 3)),
    ((4, 4, 4), (2, 2, 2)),
    ((4, 2, 6), (2, 1, 3)),
    ((3, 4, 4), (1, 2, 4)),
    ((2, 6, 2), (1, 3, 2)),
    ((5, 2, 2), (5, 1, 1)),
]
"""Grid and cluster, for the special registers."""

SIZES = (1, 2, 3, 4, 8, 16)
"""Blocks of a cluster, for everything else."""


def answers(run: Run) -> dict[str, Answer]:
    """The result of every probe, by name."""
    found: dict[str, Answer] = {}
    for grid, cluster in SHAPES:
        blocks = grid[0] * grid[1] * grid[2]
        name = "registers " + "x".join(map(str, grid)) + " by " + "x".join(map(str, cluster or ()))
        found[name] = run("registers", grid, 64, cluster, 32 * blocks, ())
    found["compiled"] = run("compiled", (4, 2, 3), 32, None, 32 * 24, ())
    for n in SIZES:
        grid, cluster = (2 * n, 1, 1), (n, 1, 1)
        words = 2 * n
        found[f"addresses {n}"] = run("addresses", grid, 32, cluster, words * 16 * n, ())
        found[f"groups {n}"] = run("groups", grid, 64, cluster, words * 32, ())
        for name, each in (
            ("atomics", 64), ("floats", 16), ("widths", 64), ("generic", 64), ("early", 64),
            ("exits", 64), ("ring", 64), ("async_stores", 64), ("async_reductions", 64),
            ("copies", 64), ("copied_reductions", 64),
        ):  # fmt: skip
            found[f"{name} {n}"] = run(name, grid, 64, cluster, words * each, ())
        for mask in sorted({1, (1 << n) - 1, 1 << (n - 1), 0x5555 & ((1 << n) - 1)}):
            name = f"multicast {n} mask {mask:#x}"
            found[name] = run("multicast", grid, 64, cluster, words * 64, (mask,))
    return found
