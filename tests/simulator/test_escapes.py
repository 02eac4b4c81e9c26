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

import numpy as np
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


@pytest.mark.parametrize(("index", "legal"), [("t", True), ("t + 1", False), ("t - 1", False)])
def test_the_ends_of_a_shared_array(index: str, legal: bool) -> None:
    """Indices that are bounded at compile time are not checked at run time; all others are."""
    source = f"""extern "C" __global__ void k(float* x) {{
        __shared__ float s[64];
        int t = threadIdx.x;
        s[t] = x[t];
        s[{index}] += 1.0f;
        x[t] = s[t];
    }}"""
    x = np.arange(64, dtype=np.float32)
    kernel = weft.cuda(source).k
    if legal:
        kernel[1, 64](x)
        np.testing.assert_array_equal(x, np.arange(64) + 1)
    else:
        with pytest.raises(weft.IllegalAddress, match="shared"):
            kernel[1, 64](x)
