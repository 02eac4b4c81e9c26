"""`weft ptx FILE.cu`: compile a CUDA C++ file to PTX."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.syntax import Syntax

from weft.cli import options, show
from weft.device.gpu.facts import facts
from weft.device.selection import Selection
from weft.errors import Error
from weft.source import compile_cuda
from weft.source.unit import Define
from weft.values import Ptx


def run(
    file: Annotated[Path, typer.Argument(help="A CUDA C++ file.")],
    arch: Annotated[
        str | None, typer.Option(help="Architecture, e.g. sm_80. Default: that of --device.")
    ] = None,
    device: Annotated[
        str, typer.Option(help="The GPU to compile for: sim, sim:MODEL, gpu or gpu:N.")
    ] = "sim",
    std: Annotated[str, typer.Option("-std", "--std", help="The C++ standard.")] = "c++17",
    define: Annotated[
        list[str] | None, typer.Option("-D", help="Define NAME or NAME=VALUE. Repeatable.")
    ] = None,
    include: Annotated[
        list[Path] | None, typer.Option("-I", help="Add a folder of headers. Repeatable.")
    ] = None,
    kernel: Annotated[
        list[str] | None,
        typer.Option("-k", "--kernel", help="Instantiate a template: 'saxpy<float>'. Repeatable."),
    ] = None,
    fast_math: Annotated[bool, typer.Option("--fast-math", help="Compile with fast math.")] = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write to this file instead of standard output."),
    ] = None,
    json: show.Json = False,
) -> None:
    """Compile a CUDA C++ file to PTX and print it.

    NVRTC compiles kernels. nvcc compiles a file that also has host code.
    """
    target = arch or _architecture(options.device(device))
    ptx = compile_cuda(
        file,
        arch=target,
        std=std,
        defines=dict(map(_definition, define or [])),
        include=include or [],
        fast_math=fast_math,
        name_expressions=kernel or [],
    )
    if output is not None:
        _write(output, ptx)
    if json:
        show.data(_facts(ptx, output))
    elif output is None:
        _print(ptx.text)


def _architecture(device: Selection) -> str:
    return device.simulated.compile_for if device.number is None else facts(device.number).machine


def _definition(text: str) -> tuple[str, Define]:
    name, equals, value = text.partition("=")
    return name, value if equals else None


def _write(path: Path, ptx: Ptx) -> None:
    try:
        path.write_text(ptx.text, encoding="utf-8")
    except OSError as error:
        raise Error("cannot write the PTX", where=str(path), got=error.strerror or "") from None


def _facts(ptx: Ptx, output: Path | None) -> dict[str, object]:
    kernels = [
        {
            "name": name,
            "entry": entry,
            "parameters": [vars(p) for p in ptx.signatures.get(entry, ())],
        }
        for name, entry in ptx.entries.items()
    ]
    text = {"ptx": ptx.text} if output is None else {"output": str(output)}
    return {"file": ptx.origin, "arch": ptx.arch, "kernels": kernels, **text}


def _print(text: str) -> None:
    if sys.stdout.isatty():
        code = Syntax("", "ptx", theme="ansi_dark", background_color="default")
        show.console().print(code.highlight(text), soft_wrap=True)  # a Syntax would cut long lines
    else:
        sys.stdout.write(text)
