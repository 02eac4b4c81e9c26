"""Whole programs that call cuSPARSE and cuSOLVER."""

from __future__ import annotations

import pytest

from folders import TESTS
from weft.errors import MissingDependency
from weft.frontends import program
from weft.source import toolkit

EXPECTED = {
    "sparse.cu": (
        "2Ax + y: 24 32 78\n"
        "A'y: 336 96 48 390\n"
        "AB: 7 19 6 18 24 60\n"
        "ABB' where A is: 102 154 120 324 576\n"
        "dense: 102 0 154 0 0 120 0 0 324 0 0 576\n"
        "columns start: 1 3 4 5 6\n"
        "rows: 1 3 2 1 3\n"
        "solved: 1 2 2\n"
    ),
    "solver.cu": "not positive definite: 3\n",
    "complex_solver.cu": "complex factors\n",
    "printed.cu": "printed\n",
}


@pytest.mark.parametrize("name", EXPECTED)
def test_programs_of_linear_algebra(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    try:
        toolkit.find()
    except MissingDependency as error:
        pytest.skip(error.what)
    code = program.run(str(TESTS / "programs" / name), [])
    out, err = capfd.readouterr()
    assert code == 0 and out.startswith(EXPECTED[name]), out + err
