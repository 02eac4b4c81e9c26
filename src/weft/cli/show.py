"""How verbs print: tables and colours on a terminal, plain text in a pipe, JSON when asked."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from weft.cli import ascii
from weft.errors import CacheWarning, CompileWarning, Error

Json = Annotated[bool, typer.Option("--json", help="Print the facts as JSON.")]

_PIPE_COLUMNS = 200  # a pipe has no width of its own; rich would cut tables at 80

_ROOMY = 100  # columns of a terminal from which tables have more air


def console() -> Console:
    """Standard output; rich leaves colours out unless it is a terminal."""
    width = None if sys.stdout.isatty() else _PIPE_COLUMNS
    return Console(highlight=False, markup=False, width=width)


def data(value: Any) -> None:
    """Facts for a program to read."""
    print(json.dumps(value, indent=2, ensure_ascii=not ascii.is_complete(sys.stdout.encoding)))


def table(
    columns: Sequence[str], rows: Iterable[Sequence[str | Text]], *, right: Iterable[str] = ()
) -> None:
    """Rows under a header; columns named in `right` hold numbers."""
    out = console()
    gap = 1 if out.width >= _ROOMY else 0
    grid = Table(box=box.SIMPLE_HEAD, padding=(0, gap, 0, 0), show_edge=False, header_style="bold")
    for name in columns:
        grid.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        grid.add_row(*row)
    out.print(grid)


def line(text: str = "", style: str = "") -> None:
    """One line of text, never cut."""
    console().print(Text(text, style), soft_wrap=True)


def failure(error: Error) -> None:
    """An error's own text on standard error."""
    out = Console(stderr=True, highlight=False, markup=False)
    out.print(Text.assemble(("error: ", "bold red"), str(error)), soft_wrap=True)


def bar(*, quiet: bool) -> Progress:
    """A bar that counts steps, on a terminal only."""
    hidden = quiet or not sys.stdout.isatty()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, console=console(), transient=True, disable=hidden)


@contextmanager
def warned() -> Iterator[None]:
    """weft's own warnings inside look like its errors: their text on standard error, no line of
    Python's. A script's warnings stay as they are."""
    plain = warnings.showwarning

    def tell(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if not issubclass(category, CompileWarning | CacheWarning):
            plain(message, category, *place, **more)
            return
        out = Console(stderr=True, highlight=False, markup=False)
        out.print(Text.assemble(("warning: ", "bold yellow"), str(message)), soft_wrap=True)

    warnings.showwarning = tell
    try:
        yield
    finally:
        warnings.showwarning = plain


@contextmanager
def ends_at_once() -> Iterator[None]:
    """Ctrl-C inside ends the process there and then: threads may be in the midst of LLVM, whose
    destructors must not run beside them."""
    try:
        yield
    except KeyboardInterrupt:
        sys.stdout.flush()
        os._exit(130)


def size(n: float) -> str:
    """Bytes as people write them: 48 KiB, 139.8 GiB."""
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    step = 0
    while n >= 1024 and step < len(units) - 1:
        n, step = n / 1024, step + 1
    return f"{n:.1f}".removesuffix(".0") + f" {units[step]}"


def duration(seconds: float) -> str:
    """A time as people write it: 1.234 ms."""
    for unit, least in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= least:
            return f"{seconds / least:.4g} {unit}"
    return f"{seconds / 1e-9:.4g} ns"
