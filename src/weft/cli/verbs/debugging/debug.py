"""`weft debug FILE [ARGS...]`: stop kernels of a script or a CUDA program, step and look."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from weft.cli import options, program_options, show
from weft.debug.dap.adapter import serve
from weft.debug.process import DebugRequest
from weft.errors import Error
from weft.tasks.debugging.debug import DebugOptions
from weft.tasks.debugging.debug import debug as run_debugger
from weft.tasks.program import Build, words

SETTINGS = {"allow_interspersed_args": False}
"""Everything after the file, options included, is passed to the file."""


@program_options.with_build("procs")
def run(
    file: Annotated[
        Path | None, typer.Argument(help="A Python script or a CUDA program (.py, .cu, .cpp).")
    ] = None,
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
    race: Annotated[
        bool, typer.Option("--race", help="Stop at the second access of a data race.")
    ] = False,
    command: Annotated[
        list[str] | None,
        typer.Option("--command", "-c", help="A command instead of the prompt. Repeatable."),
    ] = None,
    dap: Annotated[
        bool, typer.Option("--dap", help="Serve an editor: the Debug Adapter Protocol.")
    ] = False,
    port: Annotated[
        int | None, typer.Option(help="With --dap: a port instead of standard input and output.")
    ] = None,
    dap_socket: Annotated[str, typer.Option("--dap-socket", hidden=True)] = "",
    device: Annotated[str, typer.Option(help="The GPU to simulate: sim or sim:MODEL.")] = "sim",
    program_args: program_options.Args = "",
    json: show.Json = False,
    *,
    build: Build,
) -> None:
    """Stop the kernels of a script or a CUDA program on the simulated GPU: step, look, go back.

    Without --break, each launch stops at the first line of its kernel. A fault always stops. Put
    weft's options before the file. Everything after the file is passed to the program.

    With --dap, an editor sets the breakpoints and shows the values.
    """
    if dap:
        debuggee = functools.partial(_debuggee, device, build)
        given = words(args, program_args)
        raise typer.Exit(serve(debuggee, None if file is None else str(file), given, port))
    if file is None or port is not None:
        raise Error(
            "no file to debug" if file is None else "--port is an option of --dap",
            next="weft debug FILE, or weft debug --dap [--port N] [FILE] for an editor",
        )
    request = DebugRequest(
        breakpoints or (),
        kernel,
        command if command is not None or not json else (),
        json,
        on_barrier,
        on_nan,
        dap_socket,
        race,
    )
    chosen = options.device(device)
    asked = DebugOptions(file, words(args, program_args), chosen, request, build)
    raise typer.Exit(run_debugger(asked))


def _debuggee(
    device: str, build: Build, path: str, file: str, args: Sequence[str]
) -> Sequence[str]:
    """The command of the process that the editor debugs."""
    start = [sys.executable, "-m", "weft", "debug", "--dap-socket", path, "--device", device]
    return [*start, *program_options.words(build), file, *args]
