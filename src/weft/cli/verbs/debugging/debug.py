"""`weft debug FILE [ARGS...]`: stop kernels of a script or a CUDA program, step and look."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli import options, program_options, show
from weft.debug.process import DebugRequest
from weft.tasks.debugging.debug import DebugOptions
from weft.tasks.debugging.debug import debug as run_debugger
from weft.tasks.program import Build, words

SETTINGS = {"allow_interspersed_args": False}
"""Everything after the file, options included, is passed to the file."""


@program_options.with_build()
def run(
    file: Annotated[
        Path, typer.Argument(help="A Python script or a CUDA program (.py, .cu, .cpp).")
    ],
    args: Annotated[list[str] | None, typer.Argument(help="Arguments of the program.")] = None,
    breakpoints: Annotated[
        list[str] | None,
        typer.Option("--break", "-b", help=r"\[FILE:]LINE \[if CONDITION]. Repeatable."),
    ] = None,
    kernel: Annotated[str, typer.Option(help="The only kernel that stops.")] = "",
    on_barrier: Annotated[
        bool, typer.Option("--on-barrier", help="Stop where warps arrive at barriers.")
    ] = False,
    on_nan: Annotated[
        bool, typer.Option("--on-nan", help="Stop at the first NaN of a launch.")
    ] = False,
    command: Annotated[
        list[str] | None,
        typer.Option("--command", "-c", help="A command instead of the prompt. Repeatable."),
    ] = None,
    device: Annotated[str, typer.Option(help="The GPU to simulate: sim or sim:MODEL.")] = "sim",
    program_args: program_options.Args = "",
    json: show.Json = False,
    *,
    build: Build,
) -> None:
    """Stop the kernels of a script or a CUDA program on the simulated GPU: step, look, go back.

    Without --break, each launch stops at the first line of its kernel. A fault always stops. Put
    weft's options before the file. Everything after the file is passed to the program.
    """
    request = DebugRequest(
        breakpoints or (),
        kernel,
        command if command is not None or not json else (),
        json,
        on_barrier,
        on_nan,
    )
    chosen = options.device(device)
    asked = DebugOptions(file, words(args, program_args), chosen, request, build)
    raise typer.Exit(run_debugger(asked))
