"""Dynamic parallelism and graphs whose kernels decide what runs next."""

from __future__ import annotations

import pytest

from folders import TESTS
from weft import sanitize
from weft.errors import MissingDependency
from weft.frontends import program
from weft.source import toolkit

PROGRAMS = TESTS / "programs"
CHILDREN = "600 in 63 calls\n0 left, abcdzzz: 0 0 0 0 9 9 0 0 7 7 5\n"


@pytest.fixture(autouse=True)
def _nvcc() -> None:
    try:
        toolkit.find()
    except MissingDependency as error:
        pytest.skip(error.what)


def test_kernels_launch_kernels(capfd: pytest.CaptureFixture[str]) -> None:
    assert program.run(str(PROGRAMS / "children.cu"), [], flags=["-rdc=true"]) == 0
    assert capfd.readouterr().out == CHILDREN
    with sanitize() as clean:
        assert program.run(str(PROGRAMS / "children.cu"), [], flags=["-rdc=true"]) == 0
    assert capfd.readouterr().out == CHILDREN
    assert clean.launches > 63


def test_kernels_decide_what_a_graph_runs(capfd: pytest.CaptureFixture[str]) -> None:
    assert program.run(str(PROGRAMS / "conditions.cu"), [], flags=["-rdc=true"]) == 0
    assert capfd.readouterr().out == (
        "while: 105 105 207\n"  # the body runs once before it first decides
        "if, switch: 1001 207 107\n"
        "changed: 1007 1050 50\n"
        "1 edge, 1 root, 1 node left\n"
        "memory: 3 3\n"
    )
