"""The rules of whole programs: right programs that avoid what is taught fail at a counter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import weft
from weft.device import models
from weft.learn import chapter, exercise, facts
from weft.learn.exercise import ProgramExercise
from weft.learn.grade import grade

pytestmark = pytest.mark.sim

EXERCISES = {e.title: e for c in chapter.chapters() for e in c.exercises}
CHEATS = {
    "weights in global memory": (
        "28 taps",
        "__constant__ int taps",
        "__device__ int taps",
        "constant loads >= 496",
    ),
    "one block, whose barrier is for itself": (
        "28 phases",
        "scale, blocks, 128",
        "scale, 1, 128",
        "grid barriers >= 6",
    ),
    "a loop in place of a child": (
        "28 children",
        "fill<<<(length + 63) / 64, 64>>>(x + start[r], length, r);",
        "for (int i = 0; i < length; i++) x[start[r] + i] = r;",
        "child launches >= 20",
    ),
    "members that lie apart": (
        "26 bodies",
        "if (i < bodies->count) bodies->x[i] += bodies->v[i];",
        "int n = bodies->count, apart = n % 7 ? 7 : n % 11 ? 11 : n % 13 ? 13 : 17;\n"
        "    int k = i * apart % n;\n"
        "    if (i < n) bodies->x[k] += bodies->v[k];",
        "load sectors per request <= 4",
    ),
}
"""(exercise, what its solution has, what the cheat has instead, the rule that it breaks)"""


def program(title: str) -> ProgramExercise:
    one = EXERCISES[title]
    assert isinstance(one, ProgramExercise)
    return one


@pytest.mark.parametrize("name", CHEATS)
def test_a_right_program_that_avoids_the_task_fails_at_the_rule(name: str, tmp_path: Path) -> None:
    title, old, new, rule = CHEATS[name]
    one = program(title)
    right = one.solution.read_text()
    assert right.count(old) == 1
    path = tmp_path / one.file
    path.write_text(right.replace(old, new))
    result = grade(one, path)
    assert result.stage == rule, result.words
    assert f"this exercise asks for {rule}" in result.words


def test_a_program_that_knows_one_gpu_fails_on_another(tmp_path: Path) -> None:
    one = replace(program("25 query"), models=(models.get("t4"),))
    path = tmp_path / one.file
    path.write_text(one.solution.read_text().replace("gpu.multiProcessorCount", "132"))
    result = grade(one, path)
    assert result.stage == "right" and "Tesla T4 the program prints" in result.words


def row(**changed: Any) -> dict[str, Any]:
    given = {
        "name": "f", "goal": "", "arguments": {"n": [1, 2]}, "prints": "n", "hints": [],
        "fails": "right",
    }  # fmt: skip
    return {**given, **changed}


@pytest.mark.parametrize("rule", ["bytes read per result <= 4", "writing threads >= 8"])
def test_a_rule_on_results_or_threads_is_refused_for_a_program(rule: str, tmp_path: Path) -> None:
    files = exercise.Files(tmp_path, "f", "f.cu", "int f;", tmp_path / "f.cu")
    with pytest.raises(weft.ArgumentError, match="names an unknown fact"):
        exercise.read("f", row(rules=[rule]), files)


def test_an_unknown_gpu_is_refused(tmp_path: Path) -> None:
    files = exercise.Files(tmp_path, "f", "f.cu", "int f;", tmp_path / "f.cu")
    with pytest.raises(weft.LaunchError, match="no such GPU model"):
        exercise.read("f", row(models=["k40"]), files)


def test_the_facts_of_programs_are_facts() -> None:
    assert "launches" in facts.PROGRAM
    assert set(facts.PROGRAM) < set(facts.NAMES)
