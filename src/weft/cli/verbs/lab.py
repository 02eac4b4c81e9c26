"""`weft lab`: edit, run, check and profile kernels in the browser."""

from __future__ import annotations

import os
import secrets
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import show
from weft.errors import ArgumentError, Error, MissingDependency
from weft.installation import pip_install

if TYPE_CHECKING:
    from weft.lab.saving import Files

PORT = 8642


def run(
    file: Annotated[
        str | None,
        typer.Argument(help="A kernel (.cu, .py), an exercise (learn:04/strip) or a shared link."),
    ] = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port to listen on.")] = PORT,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    allow_python: Annotated[
        bool, typer.Option("--allow-python", help="Run Triton and Numba sources without asking.")
    ] = False,
    time_limit: Annotated[float, typer.Option(min=1, help="Seconds that a launch may take.")] = 60,
    memory: Annotated[float, typer.Option(min=0.5, help="GiB that the worker may use.")] = 4,
    where: Annotated[
        Path, typer.Option("--in", help="Your folder with the course, as of weft learn.")
    ] = Path("learn"),
    json: show.Json = False,
) -> None:
    """Edit, run, check and profile kernels in the browser, on the simulated GPU.

    It opens and saves the exercises of your folder with the course, and the given file. The server
    listens on this machine only. Ctrl-C ends it.
    """
    try:
        from weft.lab.api import Api
        from weft.lab.server import bound, serve
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn", "anyio"):
            raise
        raise MissingDependency("the lab needs a web server", next=pip_install("lab")) from error
    from weft.lab.process import LabWorker
    from weft.lab.saving import Files

    fragment = f"#{file.partition('#')[2]}" if file and "#" in file else ""
    own = Path(file).absolute() if file and os.path.isfile(file) else None
    files = Files(where, own)
    start = None if fragment or not file else _job(files, file)
    listening = bound(port)
    token = secrets.token_urlsafe(24)
    include = [str(own.resolve().parent)] if own else []
    worker = LabWorker(limit=time_limit, memory=int(memory * 2**30), include=include)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/?token={token}{fragment}"
    if json:
        show.data({"url": url})
    else:
        show.line(f"weft lab: {url}", "bold")
        show.line("Ctrl-C ends it.")
    sys.stdout.flush()  # a pipe's reader waits for the address
    if browser:
        webbrowser.open(url)
    serve(Api(worker, start=start, python=allow_python, files=files), listening, token)


def _job(files: Files, name: str) -> dict[str, object]:
    """The job of an origin or of a file, for which the page fills the form from its kernels."""
    from weft.lab import saving

    path = Path(name)
    if name.partition(":")[0] in ("learn", "puzzle", "ladder", "example") and not path.exists():
        return files.opened(name)
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:  # names may be no text, or have a null
        raise Error("cannot read the file", where=str(path), got=str(error)) from None
    if path.suffix not in (".cu", ".cuh", ".py"):
        raise ArgumentError("the lab opens kernels", got=path.name, allowed=".cu, .cuh or .py")
    kind = "cuda" if path.suffix != ".py" else "numba" if "numba" in source else "triton"
    return {
        "kind": kind, "source": source, "title": path.name, "origin": saving.FILE,
        "file": name, "version": saving.version(source),
    }  # fmt: skip
