"""Options of the verbs that run a whole CUDA program: run, check --sanitize, profile."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Annotated, Any

import typer

from weft.tasks.program import Build

PANEL = "CUDA programs"
Args = Annotated[str, typer.Option("--args", help="Arguments of the program, in one string.")]


def _option(kind: Any, *names: str, help: str) -> Any:
    return Annotated[kind, typer.Option(*names, help=help, rich_help_panel=PANEL)]


_Words = list[str] | None
_OPTIONS = {
    "sources": _option(_Words, "--with", help="Add a source file. Repeatable."),
    "include": _option(_Words, "-I", help="Add a folder of headers. Repeatable."),
    "define": _option(_Words, "-D", help="Define NAME or NAME=VALUE. Repeatable."),
    "std": _option(str | None, "-std", "--std", help="The C++ standard."),
    "optimize": _option(str | None, "-O", help="The optimization level of host code."),
    "library": _option(_Words, "-l", help="Link a library. Repeatable."),
    "folder": _option(_Words, "-L", help="Add a folder of libraries. Repeatable."),
    "nvcc": _option(_Words, "--nvcc", help="Pass a flag to nvcc, e.g. --nvcc=-rdc=true."),
    "cuda": _option(
        str | None, "--cuda", help="The version of CUDA that the program is for: 12 or 13."
    ),
    "gpus": _option(int, "--gpus", help="The number of simulated GPUs."),
    "procs": _option(
        int, "--procs", help="Run so many copies at the same time, with RANK and WORLD_SIZE set."
    ),
    "poison": _option(bool, "--poison", help="Fill new device memory with 0xcd instead of zeros."),
}
"""Field of `Build` -> the option that sets it."""


def words(build: Build) -> list[str]:
    """The words of a command line for a build."""
    out: list[str] = []
    for field in fields(Build):
        value = getattr(build, field.name)
        info = _OPTIONS[field.name].__metadata__[0]
        name = [info.default, *info.param_decls][-1]  # typer takes the first name as the default
        if value == field.default or value is None:
            continue
        if value is True:
            out.append(name)
            continue
        sign = "=" if name.startswith("--") else ""
        many = value if isinstance(value, list | tuple) else [value]
        out += [f"{name}{sign}{one}" for one in many]
    return out


def with_build(*omitted: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace the parameter `build` of a verb by the options of a build, except some of them."""
    chosen = [field for field in fields(Build) if field.name not in omitted]

    def decorate(run: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(run, eval_str=True)
        parameters: list[inspect.Parameter] = []
        for one in own.parameters.values():
            if one.name != "build":
                parameters.append(one)
                continue
            for f in chosen:
                parameters.append(
                    one.replace(name=f.name, default=f.default, annotation=_OPTIONS[f.name])
                )

        @functools.wraps(run)
        def verb(**given: Any) -> None:
            build = Build(**{field.name: given.pop(field.name) for field in chosen})
            run(**given, build=build)

        verb.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        verb.__annotations__ = {p.name: p.annotation for p in parameters}
        return verb

    return decorate
