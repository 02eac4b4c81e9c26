"""Kernels of which threads part and talk to each other, with their launches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from simspeed.cases import CASES as PLAIN_CASES
from simspeed.cases import Call

HERE = Path(__file__).parent
BENCHMARKS = HERE.parent


class Case(NamedTuple):
    """A kernel of a file, and its launches."""

    name: str
    file: Path
    kernel: str
    build: Callable[[], Callable[[Call], None]]
    divergent: bool


def cases() -> list[Case]:
    """The kernels of benchmarks/kernels, and those here."""
    plain = [
        Case(c.name, BENCHMARKS / "kernels" / f"{c.kernel}.cu", c.kernel, _of(c.build), False)
        for c in PLAIN_CASES
        if not c.slow
    ]
    own = [
        Case(name, HERE / "kernels.cu", name, _own(name, blocks, n), True)
        for name, (blocks, n) in _SIZES.items()
    ]
    return plain + own


_SIZES = {
    "tree": (2048, 1 << 19),
    "warp_tree": (2048, 1 << 19),
    "scan": (1024, 1 << 18),
    "bitonic": (512, 1 << 17),
    "histogram": (64, 1 << 20),
    "largest": (64, 1 << 20),
    "compact": (64, 1 << 20),
    "locked": (16, 1 << 18),
    "lane_locks": (128, 1 << 15),
    "last_block": (256, 1 << 20),
}
"""Kernel -> blocks, elements."""


def _of(build: Callable[[], Any]) -> Callable[[], Callable[[Call], None]]:
    return lambda: build().run


def _own(name: str, blocks: int, n: int) -> Callable[[], Callable[[Call], None]]:
    def build() -> Callable[[Call], None]:
        x = np.random.default_rng(0).random(n, np.float32)
        y = np.zeros(n + 1024, np.float32)

        def run(call: Call) -> None:
            y[:1024] = 0
            call((blocks,), (256,), x, y, n)

        return run

    return build
