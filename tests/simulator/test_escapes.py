"""Out-of-bounds accesses that the quick checks must not let through.

A quick check looks at the lowest and the highest address of a warp, or of several accesses; these
are inside while others are not.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

import escapes
import weft
from folders import SUPPORT


@functools.cache
def outcomes() -> dict[str, str]:
    """All of them, in another process: one that is not caught may crash it."""
    paths = os.pathsep.join([str(Path(weft.__file__).parents[1]), str(SUPPORT)])
    done = subprocess.run(
        [sys.executable, escapes.__file__],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    return dict(line.split(": ") for line in done.stdout.splitlines())


@pytest.mark.parametrize("name", escapes.OUTSIDE)
def test_caught(name: str) -> None:
    assert outcomes().get(name, "crashed") == "IllegalAddress"


def test_mutant() -> None:
    assert outcomes().get("mutant", "crashed") == "ok"
