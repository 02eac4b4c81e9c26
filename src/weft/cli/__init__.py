"""The command line. Each file in `verbs/` and its folders is one verb, imported on first use.

`bench_models.py` is the verb `bench models`, of two words.

A verb has a function `run`. Its docstring is the help; its parameters are the options. A verb
prints its result to standard output, with `--json` as JSON. For a `weft.Error`, weft prints its
text to standard error, or with `--json` its parts to standard output, and exits with code 1.
Ctrl-C exits with code 130. The optional `SETTINGS` of a verb are click's settings of the command.
"""

from __future__ import annotations

import errno
import functools
import importlib
import os
import pkgutil
import sys
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

import weft
from weft import interrupted
from weft.cli import misplaced, show, verbs
from weft.errors import Error, OutOfMemory
from weft.tasks.ended import ProgramEnded

_NAME = 200  # characters of a file's name that a message shows
_WORDS = "weft.words"  # the key of the command line's words in click's context


def _modules(folders: Sequence[str], package: str) -> Iterator[tuple[str, str]]:
    """(verb, its module) of the files in folders and in their folders; imports none of them."""
    for module in pkgutil.iter_modules(folders):
        name = f"{package}.{module.name}"
        if module.ispkg:
            yield from _modules([os.path.join(f, module.name) for f in folders], name)
        else:
            yield module.name.replace("_", " "), name


MODULES = dict(sorted(_modules(list(verbs.__path__), verbs.__name__)))
NAMES = list(MODULES)


@functools.cache
def command(name: str) -> Any:
    """The click command of a verb."""
    verb = importlib.import_module(MODULES[name])
    alone = typer.Typer(add_completion=False)
    alone.command(name, cls=_Verb, context_settings=getattr(verb, "SETTINGS", None))(verb.run)
    return get_command(alone)


class _Verb(TyperCommand):
    """One verb."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        if not ctx.allow_interspersed_args:
            misplaced.warn(self, ctx.params)
        return super().invoke(ctx)


class _Verbs(TyperGroup):
    """The group of all verbs, with common error handling."""

    def __init__(self, **options: Any) -> None:
        names: Any = dict.fromkeys(NAMES)  # for the help and for suggestions
        super().__init__(**{**options, "commands": names})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return command(cmd_name) if cmd_name in NAMES else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        return super().resolve_command(ctx, _joined(args))

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        ctx.meta[_WORDS] = [*args]  # click keeps them under names that its releases change
        return super().parse_args(ctx, args)

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        json = _asks_for_json(ctx.meta[_WORDS])
        try:
            with show.warned():
                return super().invoke(ctx)
        except ProgramEnded as ended:  # the program has printed why
            raise typer.Exit(ended.code) from None
        except (Error, OSError, MemoryError, KeyboardInterrupt) as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise  # the reader has closed the pipe; click ends quietly
            raise typer.Exit(report(error, json=json)) from None


def _joined(words: Sequence[str]) -> list[str]:
    """The words of a command line, with a verb of two words as one; a hyphen may join them."""
    verb = " ".join(words[:2])
    if verb in NAMES:
        return [verb, *words[2:]]
    hyphened = words[0].replace("-", " ") if words else ""
    return [hyphened, *words[1:]] if hyphened in NAMES else [*words]


def _asks_for_json(words: Sequence[str]) -> bool:
    """Decide whether a command line has `--json` as an option of its verb."""
    words = _joined(words)
    if not words or words[0] not in NAMES or "--json" not in words:
        return False
    own = words[: words.index("--")] if "--" in words else words
    return "--json" in own and any(p.name == "json" for p in command(words[0]).params)


def report(error: BaseException, *, json: bool = False) -> int:
    """Print an error that ends the command, with `json` as data; return the exit code."""
    if isinstance(error, KeyboardInterrupt):
        print("weft: interrupted", file=sys.stderr)
        return interrupted.exit_code()
    if isinstance(error, MemoryError):
        error = OutOfMemory("there is not enough memory")
    elif isinstance(error, OSError):
        what = "a file cannot be used" if error.filename else "the output cannot be written"
        got = error.strerror or str(error)
        error = Error(what, where=_shown(error.filename), got=got)
    assert isinstance(error, Error)
    show.failure(error, as_json=json)
    return 1


def _shown(name: object) -> str:
    """A file name for a message, shortened if it is long."""
    text = os.fsdecode(name) if isinstance(name, str | bytes) else ""
    return text if len(text) <= _NAME else f"{text[:_NAME]}..."


def _version(wanted: bool) -> None:
    if wanted:
        print(f"weft {weft.__version__}")
        raise typer.Exit


def _main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
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
