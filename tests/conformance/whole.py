"""Whole kernels on both devices: the project's tests, examples, benchmarks, and CUDA's library."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from conformance import library
from conformance.twice import watching
from weft.tasks import tour

Finding = dict[str, Any]
TESTS = Path(__file__).resolve().parents[1]
BENCHMARKS = TESTS.parent / "benchmarks"


def pieces() -> list[str]:
    """Arguments of `run`: files of tests, and other checks."""
    files = sorted(path.name for path in (TESTS / "whole_kernels").glob("test_*.py"))
    return [*files, "benchmarks", "examples", "library", "library --use_fast_math"]


def run(piece: str) -> list[Finding]:
    """Every launch of a piece, one finding a kernel and shape."""
    found: list[Finding] = []
    with watching(found, piece):
        OTHERS.get(piece, _tests)(piece)
    return found


def _tests(name: str) -> None:
    options = ["-q", "-p", "no:cacheprovider", "-W", "ignore", "-m", "not slow", "--no-header"]
    pytest.main([str(TESTS / "whole_kernels" / name), *options])


def _examples(piece: str) -> None:
    for _ in tour.visits():
        pass


def _benchmarks(piece: str) -> None:
    sys.path.insert(0, str(BENCHMARKS))
    from simspeed.cases import CASES

    for case in CASES:
        if not case.slow:
            source = BENCHMARKS / "kernels" / f"{case.kernel}.cu"
            kernel = weft.cuda(source).kernel(case.kernel)
            case.build().run(lambda grid, block, *args, k=kernel: k[grid, block](*args))


def _library(piece: str) -> None:
    rows = library.cases()
    module = weft.cuda(library.source(rows), fast_math="fast" in piece, device="sim:h200")
    for row in rows:
        x, y = library.values(row.type, 1), library.values(row.type, 2)
        out = np.zeros_like(x)
        module.kernel(row.name)[library.N // library.BLOCK, library.BLOCK](x, y, out, library.N)


OTHERS: dict[str, Callable[[str], None]] = {
    "benchmarks": _benchmarks,
    "examples": _examples,
    "library": _library,
    "library --use_fast_math": _library,
}
