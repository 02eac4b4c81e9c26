"""`weft run FILE [ARGS...]`: run a script or a CUDA program with its kernels on a device."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from weft import progress
from weft.cli import options, program_options
from weft.device.selection import Selection
from weft.device.sim.run import settings
from weft.errors import Error
from weft.frontends.files import is_script, runner, script_runner

SETTINGS = {"allow_interspersed_args": False}
"""Everything after the file, options included, is passed to the file."""


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
    autotune: Annotated[
        bool,
        typer.Option("--autotune", help="Scripts: autotuners time all configurations."),
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
    program_args: program_options.Args = "",
    sources: program_options.Sources = None,
    include: program_options.Include = None,
    define: program_options.Define = None,
    std: program_options.Std = None,
    optimize: program_options.Optimize = None,
    library: program_options.Library = None,
    folder: program_options.Folder = None,
    nvcc: program_options.Nvcc = None,
    cuda: program_options.Cuda = None,
    gpus: program_options.Gpus = 1,
    poison: program_options.Poison = False,
) -> None:
    """Run a Python script (Triton, Numba, PyTorch) or a CUDA program on the simulated GPU.

    Put weft's options before the file. Everything after the file is passed to the program.
    """
    chosen, front_end = options.device(device, gpu), script_runner() if module else runner(file)
    progress.enabled = True
    if sanitize:
        _sanitize(chosen)
    if not race_hint:
        os.environ["WEFT_RACE_HINT"] = "0"  # for the process of the program
    build = program_options.Build(
        sources, include, define, std, optimize, library, folder, nvcc, poison, gpus, cuda
    )
    arguments = program_options.words(args, program_args)
    specific = build.keywords(file, module=module)
    if module or is_script(file):
        specific |= {"autotune": autotune, "show_kernels": show_kernels, "module": module}
    elif autotune or show_kernels:
        raise Error(
            "--autotune and --show-kernels are for scripts", got=str(file), next="leave them out"
        )
    raise typer.Exit(front_end.run(str(file), arguments, device=chosen, **specific))


def _sanitize(device: Selection) -> None:
    """Does what WEFT_SANITIZE=1 does, for this process and its children."""
    if device.real:
        raise Error(
            "`weft run --sanitize` checks launches on the simulated GPU only",
            got=f"--device {device.word}",
            next="weft check --device gpu --sanitize FILE",
        )
    # Children read the variable when they start; this process has done so already.
    os.environ[settings.VARIABLE] = "1"
    settings.turn_on()
