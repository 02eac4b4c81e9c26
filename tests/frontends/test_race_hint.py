"""The line that names a data race after a plain run of a program."""

from __future__ import annotations

import pytest

from folders import TESTS
from weft.errors import MissingDependency
from weft.frontends import program
from weft.frontends.program import race_hint
from weft.source import toolkit

RACES = TESTS / "programs" / "races.cu"
HINT = "weft: shift has a data race (races.cu:7 and races.cu:6): weft check --sanitize races.cu\n"


def test_a_race_is_named_in_every_run(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    try:
        toolkit.find()
    except MissingDependency as error:
        pytest.skip(error.what)
    monkeypatch.setenv(race_hint.VARIABLE, "60")
    for _ in range(2):
        assert program.run(str(RACES), []) == 0
        assert HINT in capfd.readouterr().err
    monkeypatch.setenv(race_hint.VARIABLE, "0")
    assert program.run(str(RACES), []) == 0
    assert "race" not in capfd.readouterr().err
