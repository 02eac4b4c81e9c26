"""The PTX of Triton's and Numba's kernels that profiles are compared with ncu on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from folders import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
sys.path.insert(0, str(ROOT / "benchmarks"))

import profile_tables
from profiled import carried
from profiled.carried import PACKAGES, ROWS_OF, CarriedKernel

import weft

CASES = {case.name: case for case in carried.cases()}


@pytest.mark.parametrize("row", [pytest.param(r, id=f"{r.front_end}-{r.name}") for r in ROWS_OF])
def test_files_are_what_the_front_end_makes(row: CarriedKernel) -> None:
    package = PACKAGES[row.front_end]
    try:
        here = f"{package} {version(package)}"
    except PackageNotFoundError as missing:
        pytest.skip(f"{missing} is not installed")
    kept, made = row.file.read_text(), carried.compiled(row)
    if here in kept.splitlines()[0]:
        assert made == kept, "run benchmarks/profiled/carried.py"
    else:  # another release writes other code for the same launch
        name, grid, _, _, arguments = carried.launch(kept)
        again = carried.launch(made)
        assert (again[0], again[1], again[4]) == (name, grid, arguments)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("Triton add", lambda x, y, out: x + y),
        ("Triton transpose_rung", lambda x, out: x.T),
        ("Numba saxpy", lambda x, y: 2 * carried.f32(carried.N) + carried.f32(carried.N)),
        ("Numba transpose_square", lambda x, out: x.T),
    ],
)
def test_files_compute_what_their_source_says(name: str, wanted: Callable[..., Any]) -> None:
    case = CASES[name]
    given = case.make()
    arrays = [a for a in given if isinstance(a, np.ndarray)]
    weft.load_ptx(case.file).kernel(case.kernel)[case.grid, case.block, case.shared](*given)
    np.testing.assert_array_equal(arrays[-1], wanted(*arrays))


@pytest.mark.parametrize(
    "name",
    [
        "Triton add",
        pytest.param(
            "Triton reduce_rung", id="Triton reduce_rung: an atomic that acquires stays one"
        ),
        pytest.param(
            "Triton histogram_rung", id="Triton histogram_rung: one that is relaxed does not"
        ),
        "Numba saxpy",
        "Numba matmul_naive",
    ],
)
def test_a_recorded_launch_counts_as_ncu_did(name: str) -> None:
    case = CASES[name]
    launch = weft.load_ptx(case.file).kernel(case.kernel)[case.grid, case.block, case.shared]
    p = weft.profile(launch, *case.make())
    cases = profile_tables.newest("profile_vs_ncu.jsonl")["cases"]
    both = next(c["both"] for c in cases if c["name"] == name)
    exact = {n: theirs for n, (_, theirs) in both.items() if profile_tables.is_exact(n)}
    assert {n: p.totals[f"sim:{n}"] for n in exact} == exact


def test_files_tell_nothing_of_the_machine_that_made_them() -> None:
    for row in ROWS_OF:
        text = row.file.read_text()
        assert ".file" not in text and ".debug" not in text and str(Path.home()) not in text
