"""Rules for sizes and shapes: numbers, expressions or functions of an op's arguments."""

from __future__ import annotations

import difflib
import inspect
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from weft.errors import ArgumentError
from weft.measure.expressions import expression

Rule = Callable[[Mapping[str, Any]], Any]
"""(arguments by name) -> value."""


def rule(what: str, declared: Any, names: Iterable[str]) -> Rule:
    """Compile a rule. Unknown names raise now, not at the first call.

    what  the name of the rule in messages, e.g. "mine::square: grid"
    """
    names = list(names)
    if isinstance(declared, str):
        return _expression(what, declared, names)
    if callable(declared) and not hasattr(declared, "shape"):
        return _function(what, declared, names)
    if isinstance(declared, tuple | list):
        parts = [rule(what, part, names) for part in declared]
        return lambda arguments: tuple(part(arguments) for part in parts)
    return lambda arguments: declared


def _expression(what: str, text: str, names: list[str]) -> Rule:
    try:
        made = expression(text)
    except ArgumentError as error:
        raise _of(what, error) from error
    _check_names(what, made.names, names)
    # A plain name needs no evaluation.
    if text in names:
        return operator.itemgetter(text)

    def value(arguments: Mapping[str, Any]) -> Any:
        try:
            return made.value(arguments)
        except ArgumentError as error:
            raise _of(what, error) from error

    return value


def _of(what: str, error: ArgumentError) -> ArgumentError:
    """Add the name of the rule to the error of an expression."""
    return ArgumentError(
        f"{what}: {error.what}", got=error.got, allowed=error.allowed, next=error.next
    )


def _function(what: str, function: Callable[..., Any], names: list[str]) -> Rule:
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return lambda arguments: function(**arguments)
    wanted = [p.name for p in parameters if p.default is p.empty or p.name in names]
    _check_names(what, wanted, names)
    return lambda arguments: function(**{name: arguments[name] for name in wanted})


def _check_names(what: str, wanted: Iterable[str], names: list[str]) -> None:
    for name in wanted:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            raise ArgumentError(
                f"{what} asks for '{name}', which is none of the op's",
                allowed=", ".join(names) or "numbers: it has no arguments",
                next=f"did you mean '{near[0]}'?" if near else "",
            )
