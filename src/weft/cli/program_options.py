"""Options of the verbs that run a whole CUDA program: run, check --sanitize, profile."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from weft.errors import Error
from weft.frontends.files import is_script

PANEL = "CUDA programs"

_Words = list[str] | None
Sources = Annotated[
    _Words, typer.Option("--with", help="Add a source file. Repeatable.", rich_help_panel=PANEL)
]
Include = Annotated[
    _Words, typer.Option("-I", help="Add a folder of headers. Repeatable.", rich_help_panel=PANEL)
]
Define = Annotated[
    _Words, typer.Option("-D", help="Define NAME or NAME=VALUE. Repeatable.", rich_help_panel=PANEL)
]
Std = Annotated[
    str | None, typer.Option("-std", "--std", help="The C++ standard.", rich_help_panel=PANEL)
]
Optimize = Annotated[
    str | None,
    typer.Option("-O", help="The optimization level of host code.", rich_help_panel=PANEL),
]
Library = Annotated[
    _Words, typer.Option("-l", help="Link a library. Repeatable.", rich_help_panel=PANEL)
]
Folder = Annotated[
    _Words, typer.Option("-L", help="Add a folder of libraries. Repeatable.", rich_help_panel=PANEL)
]
Nvcc = Annotated[
    _Words,
    typer.Option(
        "--nvcc", help="Pass a flag to nvcc, e.g. --nvcc=-rdc=true.", rich_help_panel=PANEL
    ),
]
Poison = Annotated[
    bool,
    typer.Option(
        "--poison", help="Fill new device memory with 0xcd instead of zeros.", rich_help_panel=PANEL
    ),
]
Gpus = Annotated[
    int, typer.Option("--gpus", help="The number of simulated GPUs.", rich_help_panel=PANEL)
]
Cuda = Annotated[
    str | None,
    typer.Option(
        "--cuda", help="The version of CUDA that the program is for: 12 or 13.",
        rich_help_panel=PANEL,
    ),
]  # fmt: skip
Args = Annotated[str, typer.Option("--args", help="Arguments of the program, in one string.")]


@dataclass(frozen=True)
class Build:
    """The values of these options."""

    sources: Sequence[str] | None = None
    include: Sequence[str] | None = None
    define: Sequence[str] | None = None
    std: str | None = None
    optimize: str | None = None
    library: Sequence[str] | None = None
    folder: Sequence[str] | None = None
    nvcc: Sequence[str] | None = None
    poison: bool = False
    gpus: int = 1
    cuda: str | None = None

    def keywords(self, file: Path, *, module: bool = False) -> dict[str, Any]:
        """Keyword arguments for the `run` of a program, or of a script or Python module."""
        values: dict[str, Any] = {
            "sources": list(self.sources or ()),
            "flags": self._flags(),
            "poison": self.poison,
        }
        if not (module or is_script(file)):
            return {**values, "gpus": self.gpus}
        if any(values.values()):
            raise Error(
                "compiler flags are for CUDA programs", got=str(file), next="leave them out"
            )
        return {"gpus": self.gpus}

    def _flags(self) -> list[str]:
        lettered = {"-I": self.include, "-D": self.define, "-L": self.folder, "-l": self.library}
        return [
            *(f"{letter}{value}" for letter, values in lettered.items() for value in values or ()),
            *([f"-std={self.std}"] if self.std else []),
            *([f"-O{self.optimize}"] if self.optimize else []),
            *([f"--cuda={self.cuda}"] if self.cuda else []),
            *(self.nvcc or ()),
        ]


def words(listed: Sequence[str] | None, text: str) -> list[str]:
    """The arguments of the program: words after the file, or those of --args."""
    return [*(listed or ()), *shlex.split(text)]
