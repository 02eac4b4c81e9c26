"""`weft run FILE [ARGS...]`: a script or a whole program, its kernels on the simulated GPU."""

from __future__ import annotations

import importlib
import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from weft import progress
from weft.device import models
from weft.device.sim.run import settings
from weft.errors import Error
from weft.measure.check import user_file

SETTINGS = {"allow_interspersed_args": False}
"""What follows the file belongs to it, options too."""

_RUNNERS = {".py": "weft.frontends.script", ".cu": "weft.frontends.program"}
"""Suffix -> the module whose `run(path, args, device=, gpu=)` gives the exit code."""


class Device(StrEnum):
    """Where kernels run."""

    sim = "sim"
    gpu = "gpu"


def run(
    file: Annotated[Path, typer.Argument(help="A Python script or a CUDA program (.py, .cu).")],
    args: Annotated[list[str] | None, typer.Argument(help="Its arguments.")] = None,
    device: Annotated[
        Device, typer.Option(help="Simulate a GPU, or use the one that is there.")
    ] = Device.sim,
    gpu: Annotated[str, typer.Option(help="The GPU to simulate.")] = models.DEFAULT,
    sanitize: Annotated[
        bool, typer.Option("--sanitize", help="Stop at races and other mistakes in kernels.")
    ] = False,
    sources: Annotated[
        list[str] | None, typer.Option("--with", help="CUDA: one more source of the program.")
    ] = None,
    include: Annotated[list[str] | None, typer.Option("-I", help="CUDA: headers.")] = None,
    define: Annotated[
        list[str] | None, typer.Option("-D", help="CUDA: NAME or NAME=VALUE.")
    ] = None,
    std: Annotated[str | None, typer.Option("-std", help="CUDA: C++ standard.")] = None,
    optimize: Annotated[str | None, typer.Option("-O", help="CUDA: the host's level.")] = None,
    library: Annotated[list[str] | None, typer.Option("-l", help="CUDA: a library.")] = None,
    folder: Annotated[list[str] | None, typer.Option("-L", help="CUDA: libraries.")] = None,
    nvcc: Annotated[
        list[str] | None, typer.Option("--nvcc", help="CUDA: any other flag, --nvcc=-rdc=true.")
    ] = None,
) -> None:
    """Run a Python script (Triton, Numba, PyTorch) or a CUDA program on the simulated GPU.

    Options of weft stand before the file; all that follows is the program's.
    """
    module = runner(file)
    progress.enabled = True
    if sanitize:
        _sanitize(device)
    lettered = {"-I": include, "-D": define, "-L": folder, "-l": library}
    flags = [
        *(f"{letter}{value}" for letter, values in lettered.items() for value in values or []),
        *([f"-std={std}"] if std else []),
        *([f"-O{optimize}"] if optimize else []),
        *(nvcc or []),
    ]
    compiled = {"sources": sources or [], "flags": flags} if file.suffix == ".cu" else {}
    if (flags or sources) and not compiled:
        raise Error("only CUDA programs are compiled", got=str(file), next="leave out its flags")
    raise typer.Exit(module.run(str(file), args or [], device=device.value, gpu=gpu, **compiled))


def _sanitize(device: Device) -> None:
    """As WEFT_SANITIZE=1 does, for this process and those that it starts."""
    if device is not Device.sim:
        raise Error(
            "only launches on the simulated GPU are sanitized here",
            got=f"--device {device.value}",
            next=f"weft check --device {device.value} --sanitize FILE",
        )
    os.environ[settings.VARIABLE] = "1"
    settings.turn_on()


def runner(file: Path) -> Any:
    """The module that runs files of this kind."""
    name = _RUNNERS.get(file.suffix)
    if name is None:
        raise Error(
            "weft does not know how to run this file",
            got=str(file),
            allowed=f"files that end in {' or '.join(_RUNNERS)}",
        )
    user_file.must_exist(file, tuple(_RUNNERS), "a Python script or a CUDA program")
    return importlib.import_module(name)
