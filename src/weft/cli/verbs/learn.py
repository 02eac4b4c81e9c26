"""`weft learn`: the course."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli import show
from weft.cli.learn_actions import Asked, LearnAction, act
from weft.tasks.learn import language as languages
from weft.tasks.learn.options import LearnOptions


def run(
    action: Annotated[
        LearnAction, typer.Argument(help=f"{', '.join(a.value for a in LearnAction)}.")
    ] = LearnAction.map,
    what: Annotated[
        list[str] | None,
        typer.Argument(
            help="A chapter (04), an exercise (04/strip) or a puzzle; class: learners' folders."
        ),
    ] = None,
    only: Annotated[str, typer.Option(help="Only this exercise of the chapter.")] = "",
    language: Annotated[
        list[str] | None,
        typer.Option(
            help="The language of puzzles (cuda, triton, numba), or of texts (de); may be repeated."
        ),
    ] = None,
    device: Annotated[
        str, typer.Option(help="verify: sim, or gpu, which runs the solutions.")
    ] = "sim",
    where: Annotated[
        Path | None, typer.Option("--in", help="Your folder with the course; default: learn.")
    ] = None,
    name: Annotated[str, typer.Option(help="certificate: the name of the learner.")] = "",
    html: Annotated[
        Path | None,
        typer.Option(help="map, certificate: write this page; export: a site in this folder."),
    ] = None,
    notebook: Annotated[
        Path | None, typer.Option(help="export: write Jupyter notebooks into this folder.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="class: write the table to this file.")] = None,
    regrade: Annotated[
        bool, typer.Option("--regrade", help="class: grade the files, in place of reading logs.")
    ] = False,
    json: show.Json = False,
) -> None:
    """Learn to write GPU kernels: texts, exercises and puzzles, graded on the simulated GPU.

    Without an action it shows the map. `start NN` copies a chapter into your folder, `check`
    grades your files, `watch` grades them whenever you save. `hint` gives the next hint, `explain`
    says what went wrong, in which thread and line. `review` lets you solve earlier exercises once
    more. `reset NN` restores the exercises and keeps your versions. `puzzle` lists the puzzles,
    `puzzle NAME` starts one and shows which thread reads what. `certificate` states what passes.

    For teachers: `class FOLDER...` collects the results of learners, `new NAME` creates a chapter,
    `verify` proves that every exercise can be solved, `export` writes the course as a site (--html)
    or as notebooks (--notebook).
    """
    words = tuple(what or ())
    code, texts = languages.chosen(language or ())
    options = LearnOptions.of(
        where or Path("learn"),
        words[0] if words else "",
        only,
        language=code,
        texts=texts,
        device=device,
        html=html,
        notebook=notebook,
    )
    act(action, Asked(options, words, where, name, csv, regrade, json))
