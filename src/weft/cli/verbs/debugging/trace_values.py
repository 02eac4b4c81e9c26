"""`weft trace-values FILE [ARGS...]`: how a variable of a thread evolves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli import options, program_options, show
from weft.debug.commands import indices
from weft.debug.process import DebugRequest
from weft.debug.value_trace import TraceRequest
from weft.tasks.debugging.debug import DebugOptions, debug
from weft.tasks.program import Build, words

SETTINGS = {"allow_interspersed_args": False}
"""Everything after the file, options included, is passed to the file."""


@program_options.with_build("procs")
def run(
    file: Annotated[
        Path, typer.Argument(help="A Python script or a CUDA program (.py, .cu, .cpp).")
    ],
    args: Annotated[list[str] | None, typer.Argument(help="Arguments of the program.")] = None,
    kernel: Annotated[str, typer.Option(help="The kernel whose launches are traced.")] = ...,  # type: ignore[assignment]
    var: Annotated[str, typer.Option(help="A variable, or a C++ expression.")] = ...,  # type: ignore[assignment]
    thread: Annotated[str, typer.Option(help="threadIdx of the thread: X[,Y[,Z]].")] = "0",
    block: Annotated[str, typer.Option(help="blockIdx of its block: X[,Y[,Z]].")] = "0",
    device: Annotated[str, typer.Option(help="The GPU to simulate: sim or sim:MODEL.")] = "sim",
    program_args: program_options.Args = "",
    json: show.Json = False,
    *,
    build: Build,
) -> None:
    """Print every change of a variable: the line that made it, the old and the new value.

    It takes one run on the simulated GPU. Put weft's options before the file. With --json, each
    launch is a line.
    """
    traced = TraceRequest(kernel, var, indices(thread, "thread"), indices(block, "block"), json)
    request = DebugRequest(trace=traced)
    chosen = options.device(device)
    raise typer.Exit(debug(DebugOptions(file, words(args, program_args), chosen, request, build)))
