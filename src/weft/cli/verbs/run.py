"""`weft run FILE [ARGS...]`: run a script or a CUDA program with its kernels on a device."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli import options, program_options
from weft.tasks.program import Build, words
from weft.tasks.run import RunOptions
from weft.tasks.run import run as run_program

SETTINGS = {"allow_interspersed_args": False}
"""Everything after the file, options included, is passed to the file."""


@program_options.with_build()
def run(
    file: Annotated[
        Path, typer.Argument(help="A Python script or a CUDA program (.py, .cu, .cpp).")
    ],
    args: Annotated[list[str] | None, typer.Argument(help="Arguments of the program.")] = None,
    module: Annotated[
        bool, typer.Option("-m", help="FILE is the name of a Python module, as for `python -m`.")
    ] = False,
    device: Annotated[
        str, typer.Option(help="Where kernels run: sim, sim:MODEL, or gpu (scripts only).")
    ] = "sim",
    gpu: options.Gpu = None,
    sanitize: Annotated[
        bool, typer.Option("--sanitize", help="Stop at the first data race or memory error.")
    ] = False,
    schedule: Annotated[
        str, typer.Option(help="The order of threads and copies: first, last or random:SEED.")
    ] = "",
    autotune: Annotated[
        bool, typer.Option("--autotune", help="Scripts: autotuners time all configurations.")
    ] = False,
    show_kernels: Annotated[
        bool,
        typer.Option(
            "--show-kernels", help="Scripts: print the kernels that torch.compile writes."
        ),
    ] = False,
    race_hint: Annotated[
        bool,
        typer.Option(
            "--race-hint/--no-race-hint",
            help="Look for data races of kernels in the background, and name them at exit.",
            rich_help_panel=program_options.PANEL,
        ),
    ] = True,
    printf_from: Annotated[
        str,
        typer.Option(
            help='Show printf of these threads with their places: all or "block=0,1 thread=31".'
        ),
    ] = "",
    program_args: program_options.Args = "",
    *,
    build: Build,
) -> None:
    """Run a Python script (Triton, Numba, PyTorch) or a CUDA program on the simulated GPU.

    Put weft's options before the file. Everything after the file is passed to the program.
    """
    asked = RunOptions(
        file,
        words(args, program_args),
        options.device(device, gpu),
        build,
        module=module,
        sanitize=sanitize,
        schedule=schedule,
        autotune=autotune,
        show_kernels=show_kernels,
        race_hint=race_hint,
        printf_from=printf_from,
    )
    raise typer.Exit(run_program(asked))
