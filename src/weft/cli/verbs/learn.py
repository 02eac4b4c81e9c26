"""`weft learn`: the course."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from weft.cli import show
from weft.cli.course import PUZZLES, Asked, graded, tell
from weft.device.selection import select
from weft.errors import ArgumentError, Error
from weft.learn.exercise import KernelExercise
from weft.learn.export import notebooks, site
from weft.learn.folder import Folder
from weft.learn.picture import picture
from weft.learn.puzzle import LANGUAGES, puzzles
from weft.learn.verify import verify


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
    ACTIONS[action](Asked(Folder(where), what, only, word, device, html, notebook, json))


def _map(asked: Asked) -> None:
    progress, folder = asked.folder.progress(), asked.folder
    rows = [
        (chapter, sum(e.title in progress.passed for e in chapter.exercises))
        for chapter in asked.chapters()
    ]
    if asked.json:
        show.data(
            [
                {
                    "chapter": c.number, "title": c.title, "started": folder.started(c.folder.name),
                    "exercises": [e.name for e in c.exercises], "passed": done,
                }
                for c, done in rows
            ]
        )  # fmt: skip
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


def _start(asked: Asked) -> None:
    exercises, folder = asked.needed("start"), asked.folder
    new = [folder.file(e) for e in exercises if folder.start(e)]
    texts = [folder.start_text(c) for c in asked.chapters()]
    if asked.json:
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


def _check(asked: Asked) -> None:
    wanted = asked.started()
    if not wanted:
        raise ArgumentError(
            "there is nothing to check yet",
            where=str(asked.folder.path),
            next=f"weft learn start {_padded(asked.what) or 'NN'}",
        )
    grades = []
    with show.bar(quiet=asked.json) as bar:
        task = bar.add_task("", total=len(wanted))
        for exercise in wanted:
            bar.update(task, description=exercise.title)
            grades.append(graded(asked.folder, exercise))
            bar.advance(task)
            if not asked.json:
                tell(grades[-1])
    if asked.puzzle is not None and not asked.json:
        _show_own(asked)
    if asked.json:
        show.data([{**vars(g), "passed": g.passed} for g in grades])
    if not all(g.passed for g in grades):
        raise typer.Exit(1)


def _show_own(asked: Asked) -> None:
    """Shows what the learner's kernel touches, unless it cannot run."""
    (exercise,) = asked.exercises()
    assert isinstance(exercise, KernelExercise)
    try:
        seen = picture(exercise, asked.folder.file(exercise), LANGUAGES[asked.key].unit)
    except Error:  # the grade has said why
        return
    show.line(f"\nWhat your kernel touches, for {exercise.op.cases[0]}:")
    show.line(str(seen), "dim")


def _padded(what: str) -> str:
    return f"{int(what):02}" if what.isdecimal() else what


def _hint(asked: Asked) -> None:
    exercises, progress = asked.needed("hint"), asked.folder.progress()
    waiting = [e for e in exercises if e.title not in progress.passed]
    if not waiting:
        show.line(f"All exercises of {_padded(asked.what)} are passed.")
        return
    exercise = waiting[0]
    seen = min(progress.hints.get(exercise.title, 0), len(exercise.hints) - 1)
    progress.hints[exercise.title] = seen + 1
    asked.folder.save(progress)
    if asked.json:
        show.data({"exercise": exercise.title, "hint": exercise.hints[seen], "number": seen + 1})
        return
    show.line(f"{exercise.title}, hint {seen + 1} of {len(exercise.hints)}", "bold")
    show.line(exercise.hints[seen])


def _reset(asked: Asked) -> None:
    kept = [asked.folder.reset(e) for e in asked.needed("reset")]
    if asked.json:
        show.data({"kept": [str(path) for path in kept if path.exists()]})
        return
    for path in kept:
        show.line(f"restored {path.with_suffix('')}" + (f"; yours is {path}" * path.exists()))


def _watch(asked: Asked) -> None:
    """Grades files whenever they are saved, until Ctrl-C."""
    seen: dict[Path, float] = {}
    show.line("Waiting for you to save an exercise; Ctrl-C ends it.", "dim")
    while True:
        for exercise in asked.started():
            file = asked.folder.file(exercise)
            changed = file.stat().st_mtime if file.is_file() else 0.0
            if changed and seen.setdefault(file, changed) != changed:
                seen[file] = changed
                tell(graded(asked.folder, exercise))
        time.sleep(0.3)


def _puzzle(asked: Asked) -> None:
    """Lists the puzzles, or starts one and shows its picture."""
    if asked.puzzle is None:
        _puzzles(asked)
        return
    exercise = asked.puzzle.answers[asked.key]
    unit = LANGUAGES[asked.key].unit
    asked.folder.start(exercise)
    seen = picture(exercise, exercise.solution, unit)
    if asked.json:
        show.data(
            {"puzzle": asked.puzzle.name, "goal": exercise.goal, "picture": seen.to_dict()}
        )  # fmt: skip
        return
    show.line(f"{asked.puzzle.number:02} {exercise.title}", "bold")
    show.line(f"{exercise.goal} {asked.puzzle.idea}\n")
    show.line(f"What a solution touches, for {exercise.op.cases[0]}:")
    show.line(f"{seen}\n", "dim")
    show.line(f"edit    {asked.folder.file(exercise)}")
    language = f" --language {asked.language}" if asked.language else ""
    show.line(f"\nNext: weft learn check {asked.puzzle.name}{language}")


def _puzzles(asked: Asked) -> None:
    passed = asked.folder.progress().passed
    marks = {
        p.name: {key: answer.title in passed for key, answer in p.answers.items()}
        for p in puzzles()
    }
    if asked.json:
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


def _export(asked: Asked) -> None:
    """Writes the course, or a chapter of it, for readers."""
    if asked.html is None and asked.notebook is None:
        raise ArgumentError(
            "weft learn export needs a folder",
            allowed="--html DIR, --notebook DIR",
            next="weft learn export --html course",
        )
    some = () if asked.what and asked.what != PUZZLES else puzzles()
    written = []
    with show.bar(quiet=asked.json) as bar:
        task = bar.add_task("", total=None)
        if asked.html is not None:
            told = functools.partial(bar.update, task)
            written += site.write(
                asked.html, asked.chapters(), some, lambda what: told(description=what)
            )
        if asked.notebook is not None:
            written += notebooks.write(asked.notebook, asked.chapters(), some)
    if asked.json:
        show.data([str(path) for path in written])
        return
    show.line(f"{len(written)} files; read {written[0]}")


def _verify(asked: Asked) -> None:
    exercises = asked.exercises()
    if not asked.what:
        exercises += Asked(**{**vars(asked), "what": PUZZLES}).exercises()
    proofs = []
    with show.bar(quiet=asked.json) as bar:
        task = bar.add_task("", total=len(exercises))
        for proof in verify(exercises, asked.device):
            bar.update(task, advance=1, description=proof.exercise)
            proofs.append(proof)
            if proof.error and not asked.json:
                show.line(f"✗ {proof.exercise}: {proof.error}", "red")
    wrong = [p for p in proofs if p.error]
    if asked.json:
        show.data([vars(p) for p in proofs])
    elif not wrong:
        real = select(asked.device).real
        said = (
            "solutions are right" if real else "exercises fail as given, and their solutions pass"
        )
        show.line(f"✓ {len(proofs)} {said}", "green")
    if wrong:
        raise typer.Exit(1)


ACTIONS: dict[Action, Callable[[Asked], None]] = {
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
