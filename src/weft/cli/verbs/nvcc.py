"""`weft nvcc ARGS...`: nvcc's command line, for the simulated GPU."""

from __future__ import annotations

from typing import Annotated

import typer

from weft.errors import ArgumentError
from weft.frontends.program.nvcc import compiler

SETTINGS = {
    "ignore_unknown_options": True,
    "allow_interspersed_args": False,
    "help_option_names": ["--weft-help"],
}
"""All words are nvcc's own."""


def run(
    arguments: Annotated[list[str] | None, typer.Argument(help="nvcc's own arguments.")] = None,
) -> None:
    """Compile and link CUDA programs and libraries that run without a GPU.

    It takes nvcc's place in a Makefile: `make NVCC="weft nvcc"`. A program that it links is run as
    usual (`./prog`); a library (`-shared`) is loaded in Python, for example by ctypes.

    `weft nvcc --toolkit DIR` makes a folder like that of a CUDA toolkit, for CMake and others.
    `--cuda 12` compiles what was written for CUDA 12.
    """
    words = arguments or []
    for word in words:
        if not word.isprintable():  # half of a character, which no file system takes
            raise ArgumentError("a word of the command line is not text", got=ascii(word))
    raise typer.Exit(compiler.compile(words))
