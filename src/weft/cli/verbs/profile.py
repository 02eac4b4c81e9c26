"""`weft profile FILE`: profile the kernels of a script or program, or compare two profiles."""

from __future__ import annotations

import json as json_module
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from weft.cli import options, program_options, show
from weft.errors import Error
from weft.report import changes, text
from weft.report.model import layers, operations
from weft.report.model.page import page as model_page
from weft.report.page import page
from weft.report.timeline import text as timeline_text
from weft.report.timeline import trace as traces
from weft.report.timeline.page import page as timeline_page
from weft.report.words import Block
from weft.tasks import profile
from weft.tasks.model.script import end
from weft.tasks.program import Build


class View(StrEnum):
    """The rows of the table of a PyTorch script."""

    layer = "layer"
    operation = "operation"


@program_options.with_build("poison", "procs")
def run(
    file: Annotated[
        Path, typer.Argument(help="A script (.py), a program (.cu) or a record (.json).")
    ],
    other: Annotated[
        Path | None, typer.Argument(help="A second file to compare with the first.")
    ] = None,
    kernel: Annotated[str | None, typer.Option(help="Profile only kernels with this name.")] = None,
    launch: Annotated[
        int | None, typer.Option(min=0, help="Profile only this launch, counted from 0.")
    ] = None,
    device: Annotated[
        str, typer.Option(help="sim or sim:MODEL: simulate. gpu: also read ncu's counters.")
    ] = "sim",
    gpu: options.Gpu = None,
    args: program_options.Args = "",
    html: Annotated[
        Path | None,
        typer.Option(help="Write an HTML page to this file: of the timeline, with --trace."),
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(help="Write the timeline to this file, as a trace for Perfetto.")
    ] = None,
    by: Annotated[
        View, typer.Option(help="PyTorch: list the layers of a step, or all operations.")
    ] = View.layer,
    *,
    build: Build,
    json: show.Json = False,
) -> None:
    """Profile every kernel that a script or program launches. No GPU is needed.

    Launches of the same kernel and shape are added up. With two files, weft prints the differences.
    For a PyTorch script, it shows the layers of one step: time, work, kernels, peak memory and
    what to do next. With --trace, it records calls, streams, copies, kernels, graphs and NVTX
    ranges, and prints their statistics.
    """
    chosen = options.device(device, gpu)
    asked = profile.ProfileOptions(
        file, chosen, kernel, launch, args, build, quiet=json, timeline=trace is not None
    )
    if other is not None:
        found = profile.compare(asked, other, _waiting)
        differences = chain.from_iterable(map(text.differences, found))
        show.result(json, lambda: [one.to_dict() for one in found], differences)
        if html is not None:
            show.page(html, changes.page(found), quiet=json)
        return
    result = profile.profile(asked)
    show.result(json, result.to_dict, _report(result, by, selected=bool(kernel or launch)))
    if trace is not None:
        if result.timeline is None:
            raise Error(
                "there is nothing for a trace",
                got=result.note or f"{file} on {chosen.word}",
                next="on a GPU, a PyTorch script has a timeline; --device sim has one of any file",
            )
        text_of = json_module.dumps(traces.trace(result.timeline))
        show.page(trace, text_of, quiet=json)
    if html is not None:
        show.page(html, _page(result), quiet=json)
    if result.model is not None and chosen.real:
        end()


def _page(result: profile.Profiled) -> str:
    """The page of the timeline, if there is one; else of the step or of the kernels."""
    if result.timeline is not None:
        return timeline_page(result.timeline)
    if result.model is None and result.note is not None and not result.profiles:
        raise Error("there is nothing for a page", got=result.note)
    return page(result.profiles) if result.step is None else model_page(result.step)


def _report(result: profile.Profiled, by: View, *, selected: bool) -> Iterator[Block]:
    """The kernels, and the layers or the operations of a PyTorch script."""
    # A model has tens of kernels; its layers say which of them to look at. So does a timeline.
    if (result.step is None or selected) and result.timeline is None:
        yield from text.launched(result.launches, result.note or "")
    if result.step is not None and by is View.layer:
        yield from layers.view(result.step)
    elif result.model is not None:
        yield from operations.view(result.model)
    if result.timeline is not None:
        yield from timeline_text.view(result.timeline)


@contextmanager
def _waiting(file: Path) -> Iterator[None]:
    with show.spinner(quiet=False, to_stderr=True) as notify:
        notify(f"profiling {file}")
        yield
