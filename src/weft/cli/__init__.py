"""The command line: one verb a file in `verbs/`, found by its name.

A verb's file has a function `run`; its docstring is the help, its parameters are the options.
A verb prints its answer to standard output, and with `--json` the same facts as JSON. What goes
wrong is a `weft.Error`: its text goes to standard error without a traceback, and the exit code
is 1. Ctrl-C ends with 130. `SETTINGS`, where a verb has them, are click's for its command.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import weft
from weft.cli import show, verbs
from weft.errors import Error


class _Verbs(TyperGroup):
    """All verbs, with one way to fail."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        try:
            return super().invoke(ctx)
        except Error as error:
            show.failure(error)
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            raise typer.Exit(130) from None


def _version(wanted: bool) -> None:
    if wanted:
        print(f"weft {weft.__version__}")
        raise typer.Exit


def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say it and end.")
    ] = False,
) -> None:
    """Write GPU kernels and run them on a simulated GPU that executes their real PTX."""


app = typer.Typer(
    cls=_Verbs,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.callback()(_main)
for _module in pkgutil.iter_modules(verbs.__path__):
    _verb = importlib.import_module(f"{verbs.__name__}.{_module.name}")
    _settings = getattr(_verb, "SETTINGS", None)
    app.command(_module.name, context_settings=_settings)(_verb.run)
