"""Output of the verbs: tables and colours on a terminal, plain text in a pipe, JSON on request."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from weft.cli import ascii
from weft.errors import CacheWarning, CompileWarning, Error
from weft.interrupted import INTERRUPTED
from weft.progress import Notify
from weft.report.files import write

if TYPE_CHECKING:
    from weft.report.words import Block

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]

_PIPE_COLUMNS = 200  # a pipe has no width; rich would wrap tables at 80 columns

_ROOMY = 100  # terminals at least this wide get padding between columns


def console() -> Console:
    """Standard output. Colours are printed on a terminal only, or where FORCE_COLOR is set."""
    width = None if sys.stdout.isatty() else _PIPE_COLUMNS
    return Console(highlight=False, markup=False, width=width)


def data(value: Any) -> None:
    """Print a value as JSON."""
    # Escapes keep every character of the data; similar ASCII characters would change it.
    print(json.dumps(value, indent=2, ensure_ascii=not ascii.is_complete(sys.stdout.encoding)))


def table(
    columns: Sequence[str], rows: Iterable[Sequence[str | Text]], *, right: Iterable[str] = ()
) -> None:
    """Print rows under a header. Columns named in `right` are right-aligned."""
    out = console()
    gap = 1 if out.width >= _ROOMY else 0
    grid = Table(box=box.SIMPLE_HEAD, padding=(0, gap, 0, 0), show_edge=False, header_style="bold")
    for name in columns:
        grid.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        grid.add_row(*row)
    out.print(grid)


def line(text: str = "", style: str = "") -> None:
    """Print one line of text without wrapping it."""
    console().print(Text(text, style), soft_wrap=True)


def code(text: str, language: str) -> None:
    """Print a program as it is, with colours where the console has any."""
    out = console()
    if out.color_system is None or out.no_color:
        sys.stdout.write(text)
        return
    from rich.syntax import Syntax  # its lexers take long to import

    colours = Syntax("", language, theme="ansi_dark", background_color="default")
    out.print(colours.highlight(text), soft_wrap=True)  # a Syntax would cut long lines


def blocks(report: Iterable[Block]) -> None:
    """Print a report: lines in their styles, and tables."""
    for block in report:
        if len(block) == 2:
            line(*block)
        else:
            cells = ([c if isinstance(c, str) else Text(*c) for c in row] for row in block.rows)
            table(block.columns, cells, right=block.right)


def result(as_json: bool, data_of: Callable[[], Any], report: Iterable[Block]) -> None:
    """Print a result as JSON or as a report; the other form is not made."""
    if as_json:
        data(data_of())
    else:
        blocks(report)


def page(path: Path, text: str, *, quiet: bool, gap: str = "") -> None:
    """Write a file that an option asks for, and print its name."""
    write(path, text)
    if not quiet:
        line(f"{gap}wrote {path}", "bold")


def failure(error: Error, *, as_json: bool) -> None:
    """Print an error: as JSON, or its text on standard error."""
    if as_json:
        data({"error": error.to_dict()})
        return
    out = Console(stderr=True, highlight=False, markup=False)
    out.print(Text.assemble(("error: ", "bold red"), str(error)), soft_wrap=True)


def warning(text: str) -> None:
    """A warning on standard error."""
    out = Console(stderr=True, highlight=False, markup=False)
    out.print(Text.assemble(("warning: ", "bold yellow"), text), soft_wrap=True)


def bar(*, quiet: bool) -> Progress:
    """A progress bar that counts steps, on a terminal only."""
    hidden = quiet or not sys.stdout.isatty()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(
        *columns, console=_console_of(hidden, console()), transient=True, disable=hidden
    )


def _console_of(hidden: bool, out: Console) -> Console:
    """The console of a progress bar: before rich 15, a hidden one ends with an empty line."""
    return Console(quiet=True) if hidden else out


@contextmanager
def spinner(*, quiet: bool, clock: bool = False, to_stderr: bool = False) -> Iterator[Notify]:
    """A spinner with the current step of a task, and a clock, on a terminal only."""
    stream = sys.stderr if to_stderr else sys.stdout
    columns = [SpinnerColumn(), TextColumn("{task.description}"), *[TimeElapsedColumn()] * clock]
    out = Console(stderr=True) if to_stderr else console()
    hidden = quiet or not stream.isatty()
    out = _console_of(hidden, out)
    with Progress(*columns, console=out, transient=True, disable=hidden) as progress:
        task = progress.add_task("", total=None)
        yield lambda what: progress.update(task, description=what)


@contextmanager
def steps(total: int, name: str = "", *, quiet: bool, at_once: bool = True) -> Iterator[Notify]:
    """A progress bar over the steps of a task; Ctrl-C may end the process at once."""
    with ends_at_once() if at_once else nullcontext(), bar(quiet=quiet) as progress:
        task = progress.add_task(name, total=total)
        prefix = f"{name}: " if name else ""
        yield lambda what: progress.update(task, advance=1, description=f"{prefix}{what}")


@contextmanager
def training(quiet: bool, total: int, done: int) -> Iterator[Callable[[int, str], None]]:
    """A progress bar of a training; what it gives is called with the steps done and a text."""
    with bar(quiet=quiet) as progress:
        task = progress.add_task("", total=total, completed=done)
        yield lambda n, what: progress.update(task, completed=n, description=what)


@contextmanager
def warned() -> Iterator[None]:
    """Print weft's own warnings as it prints errors: the text alone, on standard error.

    Warnings of a user's script keep Python's format.
    """
    plain = warnings.showwarning

    def notify(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if not issubclass(category, CompileWarning | CacheWarning):
            plain(message, category, *place, **more)
            return
        warning(str(message))

    warnings.showwarning = notify
    try:
        yield
    finally:
        warnings.showwarning = plain


@contextmanager
def ends_at_once() -> Iterator[None]:
    """Ctrl-C inside ends the process at once.

    Other threads may be inside LLVM, and its destructors must not run at the same time.
    """
    try:
        yield
    except KeyboardInterrupt:
        sys.stdout.flush()
        print("weft: interrupted", file=sys.stderr, flush=True)
        os._exit(INTERRUPTED)
