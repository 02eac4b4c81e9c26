"""f32 and f64 arithmetic against what an H200 answered, and against exact arithmetic."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from lanewise import run

GOLDEN = Path(__file__).parent / "golden" / "hardware"
OPS = json.loads((GOLDEN / "ops.json").read_text())
SAMPLES = np.load(GOLDEN / "scalar_samples.npz")
_FAMILY = re.compile(
    r"(add|sub|mul|fma|div|rcp|sqrt|abs|neg|min|max|copysign)\.(?!.*(approx|full)).*f(32|64)"
)
RECORDED = [name for name in OPS if _FAMILY.fullmatch(name)]


@pytest.mark.parametrize("lanes", [32, 0], ids=["warp", "uniform"])
@pytest.mark.parametrize("name", RECORDED)
def test_matches_the_hardware(name: str, lanes: int) -> None:
    types, _ = OPS[name]
    inputs = [SAMPLES[f"in:{'+'.join(types)}:{i}"] for i in range(len(types))]
    want = SAMPLES[f"out:{name}"]
    (got,) = run(name, inputs, lanes)
    bad = np.flatnonzero(got != want)
    assert bad.size == 0, (
        f"{name}: {bad.size} of {want.size} differ, first "
        + f"{[hex(int(x[bad[0]])) for x in inputs]} -> {int(got[bad[0]]):#x}, "
        + f"not {int(want[bad[0]]):#x}"
    )
