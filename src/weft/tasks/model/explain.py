"""Explains the model of a PyTorch script: runs it until it calls a model, and compiles that."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.device.selection import Selection
from weft.errors import ArgumentError
from weft.frontends import script as scripts
from weft.frontends.files import must_be_script
from weft.tasks.ended import ProgramEnded
from weft.tasks.model.output import to_standard_error
from weft.tasks.program import words
from weft.torch_backend import explain as explain_model
from weft.values.explanation import ModelExplanation


@dataclass(frozen=True)
class ExplainOptions:
    """A script; `quiet`: what it prints goes to standard error."""

    file: Path
    device: Selection
    args: str = ""
    quiet: bool = False


@dataclass
class _Called:
    """The first call of a model that has parameters."""

    model: Any = None
    args: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    restore: Callable[[], None] = lambda: None


def explain(options: ExplainOptions) -> ModelExplanation:
    """Explain the first model that a script calls; what follows in the script is not run."""
    must_be_script(options.file)
    found = _Called()
    with to_standard_error() if options.quiet else contextlib.nullcontext():
        code = scripts.run(
            str(options.file),
            words((), options.args),
            device=options.device,
            on_torch=functools.partial(_watch, found),
        )
        found.restore()
        if code:
            raise ProgramEnded(code)
        if found.model is None:
            raise ArgumentError(
                "the script calls no model of PyTorch that has parameters",
                where=str(options.file),
                next="call one in it: model(x)",
            )
        return explain_model(found.model, *found.args, device=options.device, **found.options)


def _watch(found: _Called, mode: Any) -> None:
    from weft.frontends.first_call import stop_at_first_call

    def called(model: Any, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        found.model, found.args, found.options = model, args, options

    found.restore = stop_at_first_call(called)
