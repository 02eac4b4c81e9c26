"""NCCL between simulated GPUs."""

from __future__ import annotations

import pytest

from folders import TESTS
from weft.errors import MissingDependency
from weft.frontends import program
from weft.source import toolkit

EXPECTED = """\
all-reduce | 300 303 306 309 | 300 303 306 309 | 300 303 306 309
reduce | 300 303 | 100 101 | 300 303
broadcast | 200 201 | 200 201 | 200 201
all-gather | 0 1 100 101 200 201 | 0 1 100 101 200 201 | 0 1 100 101 200 201
reduce-scatter | 200 201 | 202 203 | 204 205
ring | 200 201 | 0 1 | 100 101
threads | 2700 2727 2754 2781 | 2700 2727 2754 2781 | 2700 2727 2754 2781
half 1.5 60000
"""


def test_collectives(capfd: pytest.CaptureFixture[str]) -> None:
    try:
        toolkit.find()
    except MissingDependency as error:
        pytest.skip(error.what)
    file = str(TESTS / "programs" / "collectives.cu")
    assert program.run(file, [], gpus=3) == 0
    assert capfd.readouterr().out == EXPECTED
    assert program.run(file, [], gpus=2) == 3
    assert "weft run --gpus 3" in capfd.readouterr().err
