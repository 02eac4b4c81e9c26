"""A script or CUDA program that a task runs: its build and its arguments."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.errors import Error
from weft.frontends.files import is_script


@dataclass(frozen=True)
class Build:
    """Options of the compiler and of the simulated machine, as nvcc spells them."""

    sources: Sequence[str] | None = None
    include: Sequence[str] | None = None
    define: Sequence[str] | None = None
    std: str | None = None
    optimize: str | None = None
    library: Sequence[str] | None = None
    folder: Sequence[str] | None = None
    nvcc: Sequence[str] | None = None
    cuda: str | None = None
    gpus: int = 1
    procs: int = 1
    poison: bool = False

    def keywords(self, file: Path, *, module: bool = False) -> dict[str, Any]:
        """Keyword arguments for the `run` of a program, or of a script or Python module."""
        values: dict[str, Any] = {
            "sources": list(self.sources or ()),
            "flags": self._flags(),
            "poison": self.poison,
        }
        if not (module or is_script(file)):
            return {**values, "gpus": self.gpus, "procs": self.procs}
        if any(values.values()):
            raise Error(
                "compiler flags are for CUDA programs", got=str(file), next="leave them out"
            )
        if self.procs != 1:
            raise Error(
                "--procs is for CUDA programs",
                got=str(file),
                next="start the ranks of a script with torchrun (-m torch.distributed.run)",
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
