"""`weft ptx FILE.cu`: compile a CUDA C++ file to PTX."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli import show
from weft.report.files import write
from weft.tasks import compile
from weft.tasks.compile import CompileOptions


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
    asked = CompileOptions(
        file,
        device=device,
        std=std,
        defines=define or [],
        include=include or [],
        fast_math=fast_math,
    )
    ptx = compile.ptx(asked, arch, kernel or [])
    if output is not None:
        write(output, ptx.text)
    if json:
        text = {"ptx": ptx.text} if output is None else {"output": str(output)}
        show.data({**ptx.to_dict(), **text})
    elif output is None:
        show.code(ptx.text, "ptx")
