"""The actions of `weft learn`: each calls a task and shows its report."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import typer

from weft.cli import show
from weft.device.selection import select
from weft.errors import ArgumentError
from weft.report.learn import learners_text, pages
from weft.report.learn import text as report
from weft.report.learn.mistake_text import mistake
from weft.tasks.climb import Steps
from weft.tasks.learn import authors, cohort, course, course_map, explain, review
from weft.tasks.learn.certificate import certificate
from weft.tasks.learn.options import LearnOptions
from weft.values.learn.course import Grade


class LearnAction(StrEnum):
    """The actions of `weft learn`."""

    map = "map"
    start = "start"
    check = "check"
    hint = "hint"
    explain = "explain"
    review = "review"
    reset = "reset"
    watch = "watch"
    puzzle = "puzzle"
    certificate = "certificate"
    class_ = "class"
    new = "new"
    export = "export"
    verify = "verify"


@dataclass(frozen=True)
class Asked:
    """The words of a command line: the part of the course, and the options of single actions."""

    options: LearnOptions
    words: tuple[str, ...]
    where: Path | None
    name: str
    csv: Path | None
    regrade: bool
    json: bool

    @property
    def word(self) -> str:
        """The only word after the action, or ""."""
        return self.words[0] if self.words else ""


def act(action: LearnAction, asked: Asked) -> None:
    """Perform an action; raise for words that it does not take."""
    if len(asked.words) > 1 and action is not LearnAction.class_:
        raise ArgumentError(
            f"weft learn {action.value} takes one word",
            got=" ".join(asked.words),
            next=f"weft learn {action.value} {asked.word}",
        )
    ACTIONS[action](asked)


def _map(asked: Asked) -> None:
    found = course_map.course_map(asked.options)
    show.result(asked.json, found.to_dict, report.course(found))
    if asked.options.html is not None:
        show.page(asked.options.html, pages.course_map(found), quiet=asked.json)


def _start(asked: Asked) -> None:
    found = course.start(asked.options)
    show.result(asked.json, found.to_dict, report.started(found, asked.word))


def _steps(json: bool) -> Steps:
    return functools.partial(show.steps, quiet=json, at_once=False)


def _check(asked: Asked) -> None:
    options, steps = asked.options, _steps(asked.json)
    if asked.word == review.NAME:
        _graded(review.check(options, steps), asked.json)
        return
    _graded(course.check(options, steps), asked.json, functools.partial(_touched, asked))


def _touched(asked: Asked) -> None:
    """Show what the kernel of a puzzle touches."""
    seen = course.touched(asked.options) if asked.options.puzzle is not None else None
    if seen is not None:
        show.line()
        show.blocks(report.touched("What your kernel", seen))


def _graded(grades: Iterable[Grade], json: bool, after: Callable[[], None] = lambda: None) -> None:
    """Show grades as they come; exit with 1 if one fails."""
    seen = []
    for grade in grades:
        seen.append(grade)
        if not json:
            show.line(*report.grade(grade))
    if json:
        show.data([g.to_dict() for g in seen])
    else:
        after()
    if not all(g.passed for g in seen):
        raise typer.Exit(1)


def _hint(asked: Asked) -> None:
    found = course.hint(asked.options)
    if asked.json and found is not None:
        show.data(found.to_dict())
    else:
        show.blocks(report.hint(found, asked.options.padded))


def _explain(asked: Asked) -> None:
    found = explain.explain(asked.options)
    show.result(asked.json, found.to_dict, mistake(found))


def _review(asked: Asked) -> None:
    found = review.review(asked.options)
    show.result(asked.json, found.to_dict, report.review(found))


def _reset(asked: Asked) -> None:
    backups = course.reset(asked.options)
    kept = [str(path) for path in backups if path.exists()]
    show.result(asked.json, lambda: {"kept": kept}, report.restored(backups))


def _watch(asked: Asked) -> None:
    show.line("Waiting for you to save an exercise; Ctrl-C ends it.", "dim")
    for grade in course.watch(asked.options):
        show.line(*report.grade(grade))


def _puzzle(asked: Asked) -> None:
    """List the puzzles, or start one and show its picture."""
    if asked.options.puzzle is None:
        rows = course_map.puzzle_list(asked.options)
        listed = report.puzzles(rows, course.languages())
        show.result(asked.json, lambda: [p.to_dict() for p in rows], listed)
        return
    found = course.start_puzzle(asked.options)
    show.result(asked.json, found.to_dict, report.puzzle(found, asked.options.language))


def _certificate(asked: Asked) -> None:
    found = certificate(asked.options, asked.name, _steps(asked.json))
    show.result(asked.json, found.to_dict, learners_text.certificate(found))
    path = asked.options.html or asked.options.path / "certificate.html"
    show.page(path, pages.certificate(found), quiet=asked.json)


def _class(asked: Asked) -> None:
    found = cohort.cohort([Path(word) for word in asked.words], asked.regrade, _steps(asked.json))
    show.result(asked.json, found.to_dict, learners_text.cohort(found))
    if asked.csv is not None:
        show.page(asked.csv, cohort.as_csv(found), quiet=asked.json)


def _new(asked: Asked) -> None:
    files = authors.new(asked.word, asked.where or Path("."))
    places = authors.unfilled(files[0].parent)
    listed = {"files": [str(file) for file in files], "fill_in": places}
    show.result(asked.json, lambda: listed, learners_text.created(files, len(places)))


def _export(asked: Asked) -> None:
    with show.spinner(quiet=asked.json) as notify:
        written = course.export(asked.options, notify)
    show.result(asked.json, lambda: [str(path) for path in written], report.exported(written))


def _verify(asked: Asked) -> None:
    folder = authors.own_chapter(asked.word)
    proofs = []
    for proof in authors.verify(asked.options, folder, _steps(asked.json)):
        proofs.append(proof)
        if proof.error and not asked.json:
            show.line(*report.wrong(proof))
    failed = any(p.error for p in proofs)
    if asked.json:
        show.data([vars(p) for p in proofs])
    elif not failed:
        show.line(*report.proven(len(proofs), on_gpu=select(asked.options.device).real))
    if folder is not None and not asked.json:
        show.blocks(learners_text.unfilled(authors.unfilled(folder)))
    if failed:
        raise typer.Exit(1)


ACTIONS: dict[LearnAction, Callable[[Asked], None]] = {
    LearnAction.map: _map,
    LearnAction.start: _start,
    LearnAction.check: _check,
    LearnAction.hint: _hint,
    LearnAction.explain: _explain,
    LearnAction.review: _review,
    LearnAction.reset: _reset,
    LearnAction.watch: _watch,
    LearnAction.puzzle: _puzzle,
    LearnAction.certificate: _certificate,
    LearnAction.class_: _class,
    LearnAction.new: _new,
    LearnAction.export: _export,
    LearnAction.verify: _verify,
}
