"""The approximate functions against what an H200 answered."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from folders import TESTS
from lanewise import check

GOLDEN = TESTS / "golden" / "hardware"
OPS = json.loads((GOLDEN / "ops.json").read_text())
SCALAR = np.load(GOLDEN / "scalar_samples.npz")
SLICES = np.load(GOLDEN / "mufu_samples.npz")
HALVES = np.load(GOLDEN / "half_full.npz")

RECORDED = [name for name in OPS if re.search(r"\.(approx|full)\b", name)]
EVERY_HALF = [name for name in HALVES if ".approx" in name]
RAW = {"rsq": "rsqrt.approx.ftz.f32", "tanh": "tanh.approx.f32", "ex2n": "ex2.approx.ftz.f32"}


@pytest.mark.parametrize("lanes", [32, 0], ids=["warp", "uniform"])
@pytest.mark.parametrize("name", RECORDED)
def test_matches_the_hardware(name: str, lanes: int) -> None:
    types, _ = OPS[name]
    inputs = [SCALAR[f"in:{'+'.join(types)}:{i}"] for i in range(len(types))]
    check(name, inputs, SCALAR[f"out:{name}"], lanes)


@pytest.mark.parametrize("lanes", [8, 16])
@pytest.mark.parametrize("name", ["ex2.approx.ftz.f32", "rsqrt.approx.ftz.f32"])
def test_few_lanes_match_the_hardware(name: str, lanes: int) -> None:
    """A block that at most so many lanes run computes with vectors of that length."""
    check(name, [SCALAR["in:f32:0"]], SCALAR[f"out:{name}"], lanes)


@pytest.mark.parametrize("name", [f"{op}.approx.ftz.f32" for op in ("rcp", "rsqrt", "sqrt")])
def test_lanes_that_are_alike_match_the_hardware(name: str) -> None:
    """One lane computes for all; a warp in which only the last lane differs does not."""
    x, y = SCALAR["in:f32:0"][:64], SCALAR[f"out:{name}"][:64]
    check(name, [np.repeat(x, 32)], np.repeat(y, 32))
    last = np.arange(64 * 32).reshape(64, 32) // 32
    last[:, -1] = (last[:, -1] + 1) % 64
    check(name, [x[last.ravel()]], y[last.ravel()])


@pytest.mark.parametrize("key", [k[2:] for k in SLICES if k.startswith("x:")])
def test_matches_slices_of_the_special_function_unit(key: str) -> None:
    name = key.split(":")[0]
    opcode = RAW.get(name, f"{name}.approx.ftz.f32")
    check(opcode, [SLICES[f"x:{key}"]], SLICES[f"y:{key}"])


@pytest.mark.parametrize("name", EVERY_HALF)
def test_matches_on_every_16_bit_input(name: str) -> None:
    check(name, [np.arange(65536, dtype=np.uint16)], HALVES[name])
