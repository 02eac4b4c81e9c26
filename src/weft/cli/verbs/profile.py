"""`weft profile FILE`: profile the kernels of a script or program, or compare two profiles."""

from __future__ import annotations

import json as json_module
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from weft.cli import options, program_options, show
from weft.errors import Error
from weft.report import changes, model, text
from weft.report.page import page
from weft.tasks import profile
from weft.tasks.model import end
from weft.tasks.program import Build


@program_options.with_build("poison")
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
    html: Annotated[Path | None, typer.Option(help="Write an HTML page to this file.")] = None,
    trace: Annotated[
        Path | None, typer.Option(help="PyTorch: write a trace for Perfetto to this file.")
    ] = None,
    *,
    build: Build,
    json: show.Json = False,
) -> None:
    """Profile every kernel that a script or program launches. No GPU is needed.

    Launches of the same kernel and shape are added up. With two files, weft prints the differences.
    For a PyTorch script, it also lists operations by module, line and autograd node.
    """
    chosen = options.device(device, gpu)
    asked = profile.ProfileOptions(
        file, chosen, kernel, launch, args, build, counters=html is not None, quiet=json
    )
    if other is not None:
        found = profile.compare(asked, other, _waiting)
        differences = chain.from_iterable(map(text.differences, found))
        show.result(json, lambda: [one.to_dict() for one in found], differences)
        if html is not None:
            show.page(html, changes.page(found), quiet=json)
        return
    result = profile.profile(asked)
    operations = result.model
    if trace is not None and operations is None and not chosen.real:
        raise Error("there is nothing for a trace", got=f"{file}, which does not use PyTorch")
    show.result(json, result.to_dict, text.launched(result.launches, result.note or ""))
    if operations is not None and not json:
        show.blocks(model.view(operations))
    if operations is not None and trace is not None:
        show.page(trace, json_module.dumps(model.trace(operations.calls)), quiet=json)
    if operations is not None and chosen.real:
        end()
    if html is not None:
        if chosen.real and not result.profiles:
            raise Error("there is nothing for a page", got=result.note or "")
        show.page(html, page(result.profiles), quiet=json)


@contextmanager
def _waiting(file: Path) -> Iterator[None]:
    with show.spinner(quiet=False, to_stderr=True) as notify:
        notify(f"profiling {file}")
        yield
