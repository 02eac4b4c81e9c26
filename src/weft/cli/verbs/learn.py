"""`weft learn`: the course."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from weft.cli import show
from weft.errors import ArgumentError
from weft.learn.chapter import Chapter, chapters, find
from weft.learn.exercise import Exercise
from weft.learn.folder import Folder
from weft.learn.grade import Grade, grade
from weft.learn.verify import verify


class Action(StrEnum):
    """What to do with the course."""

    map = "map"
    start = "start"
    check = "check"
    hint = "hint"
    reset = "reset"
    watch = "watch"
    verify = "verify"


def run(
    action: Annotated[
        Action, typer.Argument(help="map, start, check, hint, reset, watch or verify.")
    ] = Action.map,
    chapter: Annotated[int | None, typer.Argument(help="The number of a chapter.")] = None,
    only: Annotated[str, typer.Option(help="Only this exercise of the chapter.")] = "",
    where: Annotated[Path, typer.Option("--in", help="Your folder with the course.")] = Path(
        "learn"
    ),
    json: show.Json = False,
) -> None:
    """Learn to write GPU kernels: texts, and exercises that are graded on the simulated GPU.

    Without an action it shows the map. `start NN` copies a chapter into your folder, `check`
    grades your files, `watch` grades them whenever you save, `hint NN` gives the next hint, `reset
    NN` restores the exercises and keeps your versions, `verify` proves that every exercise can be
    solved.
    """
    ACTIONS[action](Folder(where), chapter, only, json)


def _map(folder: Folder, number: int | None, only: str, json: bool) -> None:
    progress, rows = folder.progress(), []
    for chapter in _chosen(number):
        done = sum(e.title in progress.passed for e in chapter.exercises)
        rows.append((chapter, done))
    if json:
        show.data(
            [
                {
                    "chapter": c.number, "title": c.title, "started": folder.started(c),
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
    following = next((c for c, done in rows if done < len(c.exercises)), None)
    if following is not None:
        verb = "check" if folder.started(following) else "start"
        show.line(f"\nNext: weft learn {verb} {following.number:02}")


def _bar(done: int, total: int) -> str:
    return "█" * done + "░" * (total - done)


def _start(folder: Folder, number: int | None, only: str, json: bool) -> None:
    chapter = find(_needed(number, "start"))
    new = folder.start(chapter)
    target = folder.path / chapter.folder.name
    if json:
        show.data({"folder": str(target), "new": [str(path) for path in new]})
        return
    show.line(f"{chapter.number:02} {chapter.title}", "bold")
    show.line(f"read    {target / 'chapter.md'}")
    for exercise in chapter.exercises:
        show.line(f"edit    {folder.file(chapter, exercise)}: {exercise.goal}")
    show.line(f"\nNext: weft learn check {chapter.number:02}, or weft learn watch")


def _check(folder: Folder, number: int | None, only: str, json: bool) -> None:
    started = [c for c in _chosen(number) if folder.started(c)]
    if not started:
        word = f"{number:02}" if number is not None else "NN"
        raise ArgumentError(
            "there is nothing to check yet",
            where=str(folder.path),
            next=f"weft learn start {word}",
        )
    grades = []
    with show.bar(quiet=json) as bar:
        wanted = [(c, e) for c in started for e in _exercises(c, only)]
        task = bar.add_task("", total=len(wanted))
        for chapter, exercise in wanted:
            bar.update(task, description=exercise.title)
            grades.append(_graded(folder, chapter, exercise))
            bar.advance(task)
            if not json:
                _tell(grades[-1])
    if json:
        show.data([{**vars(g), "passed": g.passed} for g in grades])
    if not all(g.passed for g in grades):
        raise typer.Exit(1)


def _graded(folder: Folder, chapter: Chapter, exercise: Exercise) -> Grade:
    """Grades the learner's copy of an exercise and notes the result."""
    file = folder.file(chapter, exercise)
    if not file.is_file():
        return Grade(exercise.title, "compile", f"{file} is missing; weft learn start copies it")
    result = grade(exercise, file)
    progress = folder.progress()
    (progress.passed.add if result.passed else progress.passed.discard)(exercise.title)
    folder.save(progress)
    return result


def _tell(result: Grade) -> None:
    if result.passed:
        show.line(f"✓ {result.exercise}: {result.words}", "green")
        return
    show.line(f"✗ {result.exercise}: {result.words}", "red")


def _hint(folder: Folder, number: int | None, only: str, json: bool) -> None:
    chapter, progress = find(_needed(number, "hint")), folder.progress()
    waiting = [e for e in _exercises(chapter, only) if e.title not in progress.passed]
    if not waiting:
        show.line(f"All exercises of chapter {chapter.number:02} are passed.")
        return
    exercise = waiting[0]
    seen = min(progress.hints.get(exercise.title, 0), len(exercise.hints) - 1)
    progress.hints[exercise.title] = seen + 1
    folder.save(progress)
    if json:
        show.data({"exercise": exercise.title, "hint": exercise.hints[seen], "number": seen + 1})
        return
    show.line(f"{exercise.title}, hint {seen + 1} of {len(exercise.hints)}", "bold")
    show.line(exercise.hints[seen])


def _reset(folder: Folder, number: int | None, only: str, json: bool) -> None:
    chapter = find(_needed(number, "reset"))
    kept = [folder.reset(chapter, e) for e in _exercises(chapter, only)]
    if json:
        show.data({"kept": [str(path) for path in kept if path.exists()]})
        return
    for path in kept:
        show.line(f"restored {path.with_suffix('')}" + (f"; yours is {path}" * path.exists()))


def _watch(folder: Folder, number: int | None, only: str, json: bool) -> None:
    """Grades files whenever they are saved, until Ctrl-C."""
    seen: dict[Path, float] = {}
    show.line("Waiting for you to save an exercise; Ctrl-C ends it.", "dim")
    while True:
        for chapter in _chosen(number):
            for exercise in _exercises(chapter, only) if folder.started(chapter) else ():
                file = folder.file(chapter, exercise)
                changed = file.stat().st_mtime if file.is_file() else 0.0
                if changed and seen.setdefault(file, changed) != changed:
                    seen[file] = changed
                    _tell(_graded(folder, chapter, exercise))
        time.sleep(0.3)


def _verify(folder: Folder, number: int | None, only: str, json: bool) -> None:
    some = _chosen(number)
    total = sum(len(c.exercises) for c in some)
    proofs = []
    with show.bar(quiet=json) as bar:
        task = bar.add_task("", total=total)
        for proof in verify(some):
            bar.update(task, advance=1, description=proof.exercise)
            proofs.append(proof)
            if proof.error and not json:
                show.line(f"✗ {proof.exercise}: {proof.error}", "red")
    wrong = [p for p in proofs if p.error]
    if json:
        show.data([{"exercise": p.exercise, "error": p.error} for p in proofs])
    elif not wrong:
        show.line(f"✓ {total} exercises fail as given, and their solutions pass", "green")
    if wrong:
        raise typer.Exit(1)


# ---- what is meant -----------------------------------------------------------------------------
def _chosen(number: int | None) -> tuple[Chapter, ...]:
    return chapters() if number is None else (find(number),)


def _needed(number: int | None, action: str) -> int:
    if number is None:
        raise ArgumentError(
            f"weft learn {action} needs the number of a chapter",
            allowed=", ".join(f"{c.number:02}" for c in chapters()),
            next=f"weft learn {action} {chapters()[0].number:02}",
        )
    return number


def _exercises(chapter: Chapter, only: str) -> list[Exercise]:
    some = [e for e in chapter.exercises if not only or e.name == only]
    if not some:
        raise ArgumentError(
            "the chapter has no such exercise",
            got=only,
            allowed=", ".join(e.name for e in chapter.exercises),
        )
    return some


ACTIONS: dict[Action, Callable[[Folder, int | None, str, bool], None]] = {
    Action.map: _map,
    Action.start: _start,
    Action.check: _check,
    Action.hint: _hint,
    Action.reset: _reset,
    Action.watch: _watch,
    Action.verify: _verify,
}
