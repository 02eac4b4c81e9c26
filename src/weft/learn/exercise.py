"""Exercises: a table row becomes a kernel or a program to write or repair.

    [[exercise]]
    name = "columns"                   # exercise_columns.cu, solution_columns.cu
    goal = "Let neighbouring threads write neighbouring elements."
    signature = "x:f32[h,w] -> y:f32[w,h]"
    reference = "x.T"                  # of NumPy arrays in float64, or a function of that name
    cases = [{ h = 64, w = 64 }, { h = 33, w = 70 }]
    launch = ["transpose<<<(cdiv(w, 32), cdiv(h, 32)), (32, 32)>>>"]
    rules = ["store sectors per request <= 4", "writing threads >= 2048"]
    fails = "store sectors per request <= 4"
    hints = ["Which thread writes y[0]? Which one writes y[1]?"]

`fails` is what the exercise fails at as given: "compile", "right", "sanitize", or one of the rules.
The learner's file begins with the launch and the rules: `header.py`. Comments `// map:` of the file
ask for tensor maps, as in the header of a rung.
A Python exercise has a function `run` with the arrays and sizes as parameters and no `launch`; its
`grid` says in the same notation what `run` launches. Where `through` names a function of the file,
as of a library, the results must come from it and no kernel is launched.
A reference that is no expression is a function in `references.py`, with the exercise's name.
A whole program, with `main`, has `arguments` (the range of each number on its command line) in
place of `signature` and `cases`, `prints`, the number that the right program prints, `calls`, the
functions that it must call, and `depends_on`, those without which the number must be another one.
Its `rules` are about a run: `program_rules/`. `flags` are for nvcc. `gpus` is the number of GPUs
that it uses. `models` are GPUs to draw one from: the program is graded on it, and its reference has
one parameter more, the `GpuModel`.
Python or C without kernels has `imports`, the names that it may import or include, and is graded
by the function of the exercise's name in the chapter's `judges.py`. Kernels with `judge` are, too,
after their rules.
"""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from weft.climbing import counters, maps
from weft.climbing.rung import Rung, step
from weft.device import models
from weft.device.models import GpuModel
from weft.errors import ArgumentError
from weft.learn import facts, header
from weft.learn.program_rules import rule as program_rule
from weft.measure.op import Case, Op, array_specs

STAGES = ("compile", "right", "sanitize")
"""The stages that an exercise must pass before its rules are checked."""
COMMON = {"name", "goal", "fails", "hints"}
KERNEL = COMMON | {
    "signature", "reference", "cases", "launch", "scratch", "clear", "rules", "arrays", "reduce",
    "grid", "through", "judge",
}  # fmt: skip
JUDGED = COMMON | {"imports"}
PROGRAM = COMMON | {
    "arguments", "prints", "calls", "depends_on", "rules", "flags", "gpus", "models",
}  # fmt: skip


@dataclass(frozen=True)
class Exercise:
    """One exercise.

    title           where it belongs, and what it is called: "04 columns"
    name            what it is called
    goal            the task in one sentence
    folder, file    the folder and the name of the learner's file
    text            what the learner starts from
    solution        the file that passes
    fails           what the given file fails at
    hints           from vague to plain; none is the solution
    gpu             whether it launches kernels, so that a GPU can run it
    rules           facts that must hold beside right results
    by              the rule on what computes the results, where there is host code; else ""
    """

    title: str
    name: str
    goal: str
    folder: str
    file: str
    text: str
    solution: Path
    fails: str
    hints: tuple[str, ...]
    gpu: bool
    rules: tuple[str, ...]
    by: str


@dataclass(frozen=True)
class KernelExercise(Exercise):
    """An exercise that computes an operation.

    op       what it computes, and the sizes that it is checked on
    through  the function that must compute the results, in place of kernels
    judge    whether a function of `judges.py` grades it, after the rules
    """

    op: Op
    launch: tuple[str, ...]
    scratch: str
    clear: tuple[str, ...]
    arrays: str
    through: str
    judge: bool

    def attempt(self, path: Path) -> Rung:
        """A learner's file as something that the machinery of ladders can run."""
        return Rung(
            -1, self.title, path, self.goal, tuple(step(path, t) for t in self.launch),
            array_specs(self.scratch) if self.scratch else (), self.clear, self.rules, "", "f32",
            self.arrays, {}, maps=tuple(maps.in_source(path.read_text("utf-8"), path.name)),
        )  # fmt: skip


@dataclass(frozen=True)
class ProgramExercise(Exercise):
    """An exercise that is a whole CUDA program.

    arguments   the least and the largest value of each number on its command line
    prints      the number that the right program prints, for these arguments
    calls       the functions that it must call
    depends_on  the functions without which it must print another number
    measured    the rules on facts of a run
    flags       for nvcc
    gpus        the number of simulated GPUs; kernels of each must contribute to the result
    models      GPUs to draw one from; none for the one that is selected
    """

    arguments: Mapping[str, tuple[int, int]]
    prints: Callable[..., float]
    calls: tuple[str, ...]
    depends_on: tuple[str, ...]
    measured: tuple[str, ...]
    flags: tuple[str, ...]
    gpus: int
    models: tuple[GpuModel, ...]

    @staticmethod
    def rule(call: str) -> str:
        """The rule that a function is called."""
        return f"calls {call}"

    @staticmethod
    def need(name: str) -> str:
        """The rule that a function matters."""
        return f"the number depends on {name}"


@dataclass(frozen=True)
class JudgedExercise(Exercise):
    """An exercise in Python or C without kernels, which a function of `judges.py` grades.

    imports   the packages, or the headers, that the file may use
    """

    imports: tuple[str, ...]

    @property
    def rule(self) -> str:
        """The rule on imports."""
        return import_rule(self.imports)


@dataclass(frozen=True)
class Files:
    """The files of an exercise: see `Exercise`; `where` is the folder of its table."""

    where: Path
    folder: str
    file: str
    text: str
    solution: Path


def import_rule(imports: Sequence[str]) -> str:
    """The rule that a file uses these packages or headers alone."""
    return f"imports nothing but {', '.join(imports)}" if imports else "imports nothing"


def read(title: str, row: Mapping[str, Any], files: Files) -> Exercise:
    """Read an exercise from a row of a table."""
    where, name = files.where, str(row["name"])
    place = f"{where.name}, {name}"
    _known_keys(place, row)
    judged = "imports" in row
    calls, depends_on = tuple(row.get("calls", ())), tuple(row.get("depends_on", ()))
    measured = tuple(row.get("rules", ()))
    of_calls = (*map(ProgramExercise.rule, calls), *map(ProgramExercise.need, depends_on))
    rules = (import_rule(row["imports"]),) if judged else (*measured, *of_calls)
    fails = str(row["fails"])
    if fails not in (*STAGES, *rules):
        raise ArgumentError(
            "an exercise must name the stage that it fails at as given",
            where=place,
            got=fails,
            allowed=", ".join((*STAGES, *rules)),
        )
    goal, hints, through = str(row["goal"]), tuple(row["hints"]), str(row.get("through", ""))
    host_code = "arguments" in row or (files.solution.suffix == ".py" and not judged)
    gpus = int(row.get("gpus", 1))
    computes = f"{through or 'a kernel'} computes" if gpus == 1 else "kernels of each GPU compute"
    by = f"{computes} the results" if host_code else ""
    places = (files.folder, files.file, files.text, files.solution)
    common = (title, name, goal, *places, fails, hints, not (through or judged), rules, by)
    if judged:
        return _with_header(JudgedExercise(*common, tuple(row["imports"])), ())
    if "arguments" in row:
        _known_facts(place, measured, program_rule.fact_of, program_rule.NAMES)
        drawn = tuple(map(models.get, row.get("models", ())))
        ranges = {n: (int(least), int(most)) for n, (least, most) in row["arguments"].items()}
        prints = _reference(where, name, [*ranges, *["gpu"] * bool(drawn)], row.get("prints"))
        more = (calls, depends_on, measured, tuple(row.get("flags", ())), gpus, drawn)
        return _with_header(ProgramExercise(*common, ranges, prints, *more), ())
    _known_facts(place, rules, counters.fact_of, facts.NAMES)
    signature = str(row["signature"])
    inputs = [s.name for s in array_specs(signature.split("->")[0], signature)]
    op = Op(
        name,
        signature,
        reference=_reference(where, name, inputs, row.get("reference")),
        cases=[Case.of(sizes) for sizes in row["cases"]],
        reduce=str(row.get("reduce", "")),
    )
    launch = tuple(row.get("launch", ()))
    one = KernelExercise(
        *common, op, launch, str(row.get("scratch", "")), tuple(row.get("clear", ())),
        str(row.get("arrays", "torch" if files.solution.suffix == ".py" else "")),
        through, bool(row.get("judge", False)),
    )  # fmt: skip
    return _with_header(one, launch or tuple(row.get("grid", ())))


def _with_header(one: Exercise, launch: Sequence[str]) -> Exercise:
    """The exercise with a text that begins with the launch and the rules."""
    case = one.op.cases[0] if isinstance(one, KernelExercise) else None
    lines = header.lines(one.solution, launch, case, [*one.rules, *([one.by] if one.by else [])])
    return replace(one, text=header.stated(one.file, one.text, lines))


def _known_facts(
    place: str, rules: Iterable[str], fact_of: Callable[[str], str], names: Sequence[str]
) -> None:
    for rule in rules:
        if fact_of(rule) not in names:
            raise ArgumentError(
                "a rule names an unknown fact",
                where=place,
                got=rule,
                allowed=", ".join(names),
                next=f"a fact, a comparison, a number: {names[-1]} >= 2",
            )


def _known_keys(place: str, row: Mapping[str, Any]) -> None:
    keys = PROGRAM if "arguments" in row else JUDGED if "imports" in row else KERNEL
    for key in row.keys() - keys:
        near = difflib.get_close_matches(key, keys, 1)
        raise ArgumentError(
            "an exercise has no such key",
            where=place,
            got=key,
            allowed=", ".join(sorted(keys)),
            next=f"did you mean '{near[0]}'?" if near else "",
        )


def _reference(
    folder: Path, name: str, inputs: Iterable[str], text: str | None
) -> Callable[..., Any]:
    """The reference: an expression of NumPy and the inputs, or a function in `references.py`."""
    if text:
        # The chapter's author wrote it, as the reference of a ladder.
        function: Callable[..., Any] = eval(f"lambda {', '.join(inputs)}: {text}", {"np": np})
        return function
    spec = importlib.util.spec_from_file_location(
        f"weft_references_{folder.name}", folder / "references.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Callable[..., Any] = getattr(module, name)
    return found
