"""`weft run FILE [ARGS...]`: run a script or a CUDA program with its kernels on a device."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from weft import progress
from weft.cli import options
from weft.device.selection import Selection
from weft.device.sim.run import settings
from weft.errors import Error
from weft.measure.check import user_file

SETTINGS = {"allow_interspersed_args": False}
"""Everything after the file, options included, is passed to the file."""

_RUNNERS = {".py": "weft.frontends.script", ".cu": "weft.frontends.program"}
"""Suffix -> the module whose `run(path, args, device=)` returns the exit code."""


def run(
    file: Annotated[Path, typer.Argument(help="A Python script or a CUDA program (.py, .cu).")],
    args: Annotated[list[str] | None, typer.Argument(help="Arguments of the program.")] = None,
    device: Annotated[
        str, typer.Option(help="Where kernels run: sim, sim:MODEL, or gpu (scripts only).")
    ] = "sim",
    gpu: options.Gpu = None,
    sanitize: Annotated[
        bool, typer.Option("--sanitize", help="Stop at the first data race or memory error.")
    ] = False,
    sources: Annotated[
        list[str] | None, typer.Option("--with", help="CUDA: add a source file. Repeatable.")
    ] = None,
    include: Annotated[
        list[str] | None, typer.Option("-I", help="CUDA: add a folder of headers. Repeatable.")
    ] = None,
    define: Annotated[
        list[str] | None, typer.Option("-D", help="CUDA: define NAME or NAME=VALUE. Repeatable.")
    ] = None,
    std: Annotated[
        str | None, typer.Option("-std", "--std", help="CUDA: the C++ standard.")
    ] = None,
    optimize: Annotated[
        str | None, typer.Option("-O", help="CUDA: the optimization level of host code.")
    ] = None,
    library: Annotated[
        list[str] | None, typer.Option("-l", help="CUDA: link a library. Repeatable.")
    ] = None,
    folder: Annotated[
        list[str] | None, typer.Option("-L", help="CUDA: add a folder of libraries. Repeatable.")
    ] = None,
    nvcc: Annotated[
        list[str] | None,
        typer.Option("--nvcc", help="CUDA: pass a flag to nvcc, e.g. --nvcc=-rdc=true."),
    ] = None,
) -> None:
    """Run a Python script (Triton, Numba, PyTorch) or a CUDA program on the simulated GPU.

    Put weft's options before the file. Everything after the file is passed to the program.
    """
    module, chosen = runner(file), options.device(device, gpu)
    progress.enabled = True
    if sanitize:
        _sanitize(chosen)
    lettered = {"-I": include, "-D": define, "-L": folder, "-l": library}
    flags = [
        *(f"{letter}{value}" for letter, values in lettered.items() for value in values or []),
        *([f"-std={std}"] if std else []),
        *([f"-O{optimize}"] if optimize else []),
        *(nvcc or []),
    ]
    compiled = {"sources": sources or [], "flags": flags} if file.suffix == ".cu" else {}
    if (flags or sources) and not compiled:
        raise Error("compiler flags are for CUDA programs", got=str(file), next="leave them out")
    raise typer.Exit(module.run(str(file), args or [], device=chosen, **compiled))


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


def runner(file: Path) -> Any:
    """The module that runs files of this kind."""
    name = _RUNNERS.get(file.suffix)
    if name is None:
        raise Error(
            "weft cannot run a file of this type",
            got=str(file),
            allowed=f"files that end in {' or '.join(_RUNNERS)}",
        )
    user_file.must_exist(file, tuple(_RUNNERS), "a Python script or a CUDA program")
    return importlib.import_module(name)
