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
from weft.report import learn as report
from weft.tasks import learn
from weft.tasks.climb import Steps
from weft.tasks.learn import LearnOptions


class LearnAction(StrEnum):
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


class PuzzleLanguage(StrEnum):
    """The languages of puzzles."""

    cuda = "cuda"
    triton = "triton"
    numba = "numba"


def run(
    action: Annotated[
        LearnAction,
        typer.Argument(help="map, start, check, hint, reset, watch, puzzle, export or verify."),
    ] = LearnAction.map,
    what: Annotated[
        str, typer.Argument(help="The number of a chapter, or the name of a puzzle.")
    ] = "",
    only: Annotated[str, typer.Option(help="Only this exercise of the chapter.")] = "",
    language: Annotated[
        PuzzleLanguage | None, typer.Option(help="The language of puzzles: cuda, triton or numba.")
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
    ACTIONS[action](LearnOptions(where, what, only, word, device, html, notebook), json)


def _map(asked: LearnOptions, json: bool) -> None:
    chapters = learn.course(asked)
    puzzles = [] if asked.what else learn.puzzle_list(asked)
    show.result(json, lambda: [vars(c) for c in chapters], report.course(chapters, puzzles))


def _start(asked: LearnOptions, json: bool) -> None:
    found = learn.start(asked)
    show.result(json, found.to_dict, report.started(found, asked.what))


def _steps(json: bool) -> Steps:
    return functools.partial(show.steps, quiet=json, at_once=False)


def _check(asked: LearnOptions, json: bool) -> None:
    grades = []
    for grade in learn.check(asked, _steps(json)):
        grades.append(grade)
        if not json:
            show.line(*report.grade(grade))
    if json:
        show.data([g.to_dict() for g in grades])
    elif asked.puzzle is not None and (seen := learn.touched(asked)) is not None:
        show.line()
        show.blocks(report.touched("What your kernel", seen))
    if not all(g.passed for g in grades):
        raise typer.Exit(1)


def _hint(asked: LearnOptions, json: bool) -> None:
    found = learn.hint(asked)
    if json and found is not None:
        show.data(found.to_dict())
    else:
        show.blocks(report.hint(found, asked.padded))


def _reset(asked: LearnOptions, json: bool) -> None:
    backups = learn.reset(asked)
    kept = [str(path) for path in backups if path.exists()]
    show.result(json, lambda: {"kept": kept}, report.restored(backups))


def _watch(asked: LearnOptions, json: bool) -> None:
    show.line("Waiting for you to save an exercise; Ctrl-C ends it.", "dim")
    for grade in learn.watch(asked):
        show.line(*report.grade(grade))


def _puzzle(asked: LearnOptions, json: bool) -> None:
    """List the puzzles, or start one and show its picture."""
    if asked.puzzle is None:
        rows = learn.puzzle_list(asked)
        show.result(
            json, lambda: [p.to_dict() for p in rows], report.puzzles(rows, learn.languages())
        )
        return
    found = learn.start_puzzle(asked)
    show.result(json, found.to_dict, report.puzzle(found, asked.language))


def _export(asked: LearnOptions, json: bool) -> None:
    with show.spinner(quiet=json) as notify:
        written = learn.export(asked, notify)
    show.result(json, lambda: [str(path) for path in written], report.exported(written))


def _verify(asked: LearnOptions, json: bool) -> None:
    proofs = []
    for proof in learn.verify(asked, _steps(json)):
        proofs.append(proof)
        if proof.error and not json:
            show.line(*report.wrong(proof))
    failed = any(p.error for p in proofs)
    if json:
        show.data([vars(p) for p in proofs])
    elif not failed:
        show.line(*report.proven(len(proofs), on_gpu=select(asked.device).real))
    if failed:
        raise typer.Exit(1)


ACTIONS: dict[LearnAction, Callable[[LearnOptions, bool], None]] = {
    LearnAction.map: _map,
    LearnAction.start: _start,
    LearnAction.check: _check,
    LearnAction.hint: _hint,
    LearnAction.reset: _reset,
    LearnAction.watch: _watch,
    LearnAction.puzzle: _puzzle,
    LearnAction.export: _export,
    LearnAction.verify: _verify,
}
