"""`weft learn`: the course."""

from __future__ import annotations

import functools
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from weft.cli import show
from weft.device.selection import select
from weft.learn.folder import Folder
from weft.learn.grade import Grade
from weft.learn.picture import picture
from weft.learn.puzzle import LANGUAGES, puzzles
from weft.tasks import learn
from weft.tasks.climb import Steps
from weft.tasks.learn import Options


class Action(StrEnum):
    """The actions of `weft learn`."""

    map = "map"
    start = "start"
    check = "check"
    hint = "hint"
    reset = "reset"
    watch = "watch"
    puzzle = "puzzle"
    export = "export"
    verify = "verify"


class Language(StrEnum):
    """The languages of puzzles."""

    cuda = "cuda"
    triton = "triton"
    numba = "numba"


def run(
    action: Annotated[
        Action,
        typer.Argument(help="map, start, check, hint, reset, watch, puzzle, export or verify."),
    ] = Action.map,
    what: Annotated[
        str, typer.Argument(help="The number of a chapter, or the name of a puzzle.")
    ] = "",
    only: Annotated[str, typer.Option(help="Only this exercise of the chapter.")] = "",
    language: Annotated[
        Language | None, typer.Option(help="The language of puzzles: cuda, triton or numba.")
    ] = None,
    device: Annotated[
        str, typer.Option(help="verify: sim, or gpu, which runs the solutions.")
    ] = "sim",
    where: Annotated[Path, typer.Option("--in", help="Your folder with the course.")] = Path(
        "learn"
    ),
    html: Annotated[
        Path | None, typer.Option(help="export: write a static site into this folder.")
    ] = None,
    notebook: Annotated[
        Path | None, typer.Option(help="export: write Jupyter notebooks into this folder.")
    ] = None,
    json: show.Json = False,
) -> None:
    """Learn to write GPU kernels: texts, exercises and puzzles, graded on the simulated GPU.

    Without an action it shows the map. `start NN` copies a chapter into your folder, `check`
    grades your files, `watch` grades them whenever you save, `hint NN` gives the next hint, `reset
    NN` restores the exercises and keeps your versions. `puzzle` lists the puzzles, `puzzle NAME`
    starts one and shows which thread reads what. `export --html DIR` writes the course as a site,
    `export --notebook DIR` as notebooks. `verify` proves that every exercise can be solved.
    """
    word = "" if language is None else language.value
    ACTIONS[action](Options(Folder(where), what, only, word, device, html, notebook), json)


def _map(asked: Options, json: bool) -> None:
    progress, folder = asked.folder.progress(), asked.folder
    rows = [
        (chapter, sum(e.title in progress.passed for e in chapter.exercises))
        for chapter in asked.chapters()
    ]
    if json:
        show.data(
            [
                {
                    "chapter": c.number,
                    "title": c.title,
                    "started": folder.started(c.folder.name),
                    "exercises": [e.name for e in c.exercises],
                    "passed": done,
                }
                for c, done in rows
            ]
        )
        return
    cells = [
        (f"{c.number:02}", c.title, f"{done} of {len(c.exercises)}", _bar(done, len(c.exercises)))
        for c, done in rows
    ]
    show.table(["", "chapter", "passed", ""], cells, right=["passed"])
    if not asked.what:
        solved = sum(a.title in progress.passed for p in puzzles() for a in p.answers.values())
        show.line(f"\n{solved} of {len(puzzles()) * len(LANGUAGES)} puzzles: weft learn puzzle")
    following = next((c for c, done in rows if done < len(c.exercises)), None)
    if following is not None:
        verb = "check" if folder.started(following.folder.name) else "start"
        show.line(f"Next: weft learn {verb} {following.number:02}")


def _bar(done: int, total: int) -> str:
    return "█" * done + "░" * (total - done)


def _start(asked: Options, json: bool) -> None:
    exercises, folder = asked.needed("start"), asked.folder
    new = [folder.file(e) for e in exercises if folder.start(e)]
    texts = [folder.start_text(c) for c in asked.chapters()]
    if json:
        show.data({"folder": str(folder.path), "new": [str(path) for path in new]})
        return
    for chapter, text in zip(asked.chapters(), texts, strict=True):
        show.line(f"{chapter.number:02} {chapter.title}", "bold")
        show.line(f"read    {text}")
    for exercise in exercises:
        show.line(f"edit    {folder.file(exercise)}: {exercise.goal}")
    for chapter in asked.chapters():
        if chapter.puzzles:
            show.line(f"puzzles {', '.join(chapter.puzzles)}: weft learn puzzle NAME")
    show.line(f"\nNext: weft learn check {asked.what}, or weft learn watch")


def _steps(json: bool) -> Steps:
    return functools.partial(show.steps, quiet=json, at_once=False)


def _print_grade(grade: Grade) -> None:
    mark, colour = ("✓", "green") if grade.passed else ("✗", "red")
    show.line(f"{mark} {grade.exercise}: {grade.words}", colour)


def _check(asked: Options, json: bool) -> None:
    grades = []
    for grade in learn.check(asked, _steps(json)):
        grades.append(grade)
        if not json:
            _print_grade(grade)
    if json:
        show.data([{**vars(g), "passed": g.passed} for g in grades])
    elif asked.puzzle is not None and (seen := learn.touched(asked)) is not None:
        show.line(f"\nWhat your kernel touches, for {asked.puzzle.answers[asked.key].op.cases[0]}:")
        show.line(str(seen), "dim")
    if not all(g.passed for g in grades):
        raise typer.Exit(1)


def _hint(asked: Options, json: bool) -> None:
    found = learn.hint(asked)
    if found is None:
        show.line(f"All exercises of {asked.padded} are passed.")
    elif json:
        show.data({"exercise": found.exercise, "hint": found.hint, "number": found.number})
    else:
        show.line(f"{found.exercise}, hint {found.number} of {found.count}", "bold")
        show.line(found.hint)


def _reset(asked: Options, json: bool) -> None:
    backups = [asked.folder.reset(e) for e in asked.needed("reset")]
    if json:
        show.data({"kept": [str(path) for path in backups if path.exists()]})
        return
    for path in backups:
        show.line(f"restored {path.with_suffix('')}" + (f"; yours is {path}" * path.exists()))


def _watch(asked: Options, json: bool) -> None:
    show.line("Waiting for you to save an exercise; Ctrl-C ends it.", "dim")
    for grade in learn.watch(asked):
        _print_grade(grade)


def _puzzle(asked: Options, json: bool) -> None:
    """List the puzzles, or start one and show its picture."""
    if asked.puzzle is None:
        _puzzles(asked, json)
        return
    exercise = asked.puzzle.answers[asked.key]
    unit = LANGUAGES[asked.key].unit
    asked.folder.start(exercise)
    seen = picture(exercise, exercise.solution, unit)
    if json:
        facts = {"puzzle": asked.puzzle.name, "goal": exercise.goal, "picture": seen.to_dict()}
        show.data(facts)
        return
    show.line(f"{asked.puzzle.number:02} {exercise.title}", "bold")
    show.line(f"{exercise.goal} {asked.puzzle.idea}\n")
    show.line(f"What a solution touches, for {exercise.op.cases[0]}:")
    show.line(f"{seen}\n", "dim")
    show.line(f"edit    {asked.folder.file(exercise)}")
    language = f" --language {asked.language}" if asked.language else ""
    show.line(f"\nNext: weft learn check {asked.puzzle.name}{language}")


def _puzzles(asked: Options, json: bool) -> None:
    passed = asked.folder.progress().passed
    marks = {
        p.name: {key: answer.title in passed for key, answer in p.answers.items()}
        for p in puzzles()
    }
    if json:
        show.data([{"puzzle": p.name, "goal": p.goal, "passed": marks[p.name]} for p in puzzles()])
        return
    rows = [
        (
            f"{p.number:02}",
            p.name,
            *("✓" if done else "" for done in marks[p.name].values()),
            p.goal,
        )
        for p in puzzles()
    ]
    show.table(["", "puzzle", *(row.name for row in LANGUAGES.values()), "goal"], rows)
    show.line("\nNext: weft learn puzzle NAME --language cuda, triton or numba")


def _export(asked: Options, json: bool) -> None:
    with show.spinner(quiet=json) as notify:
        written = learn.export(asked, notify)
    if json:
        show.data([str(path) for path in written])
    else:
        show.line(f"{len(written)} files; read {written[0]}")


def _verify(asked: Options, json: bool) -> None:
    proofs = []
    for proof in learn.verify(asked, _steps(json)):
        proofs.append(proof)
        if proof.error and not json:
            show.line(f"✗ {proof.exercise}: {proof.error}", "red")
    wrong = [p for p in proofs if p.error]
    if json:
        show.data([vars(p) for p in proofs])
    elif not wrong:
        of_gpu, of_sim = "solutions are right", "exercises fail as given, and their solutions pass"
        show.line(f"✓ {len(proofs)} {of_gpu if select(asked.device).real else of_sim}", "green")
    if wrong:
        raise typer.Exit(1)


ACTIONS: dict[Action, Callable[[Options, bool], None]] = {
    Action.map: _map,
    Action.start: _start,
    Action.check: _check,
    Action.hint: _hint,
    Action.reset: _reset,
    Action.watch: _watch,
    Action.puzzle: _puzzle,
    Action.export: _export,
    Action.verify: _verify,
}
