"""Rules: sizes and shapes as numbers, expressions or functions of an op's arguments."""

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


def rule(what: str, said: Any, known: Iterable[str]) -> Rule:
    """A rule ready to be asked; what it names is looked up now, so that typing errors show early.

    what  for messages: whose rule it is, e.g. "mine::square: grid"
    """
    known = list(known)
    if isinstance(said, str):
        return _expression(what, said, known)
    if callable(said) and not hasattr(said, "shape"):
        return _function(what, said, known)
    if isinstance(said, tuple | list):
        parts = [rule(what, part, known) for part in said]
        return lambda given: tuple(part(given) for part in parts)
    return lambda given: said


def _expression(what: str, text: str, known: list[str]) -> Rule:
    try:
        made = expression(text)
    except ArgumentError as error:
        raise _of(what, error) from error
    _all_known(what, made.names, known)
    if text in known:
        return operator.itemgetter(text)

    def value(given: Mapping[str, Any]) -> Any:
        try:
            return made.value(given)
        except ArgumentError as error:
            raise _of(what, error) from error

    return value


def _of(what: str, error: ArgumentError) -> ArgumentError:
    """The error of an expression with the name of the rule that it is for."""
    return ArgumentError(
        f"{what}: {error.what}", got=error.got, allowed=error.allowed, next=error.next
    )


def _function(what: str, function: Callable[..., Any], known: list[str]) -> Rule:
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return lambda given: function(**given)
    wanted = [p.name for p in parameters if p.default is p.empty or p.name in known]
    _all_known(what, wanted, known)
    return lambda given: function(**{name: given[name] for name in wanted})


def _all_known(what: str, wanted: Iterable[str], known: list[str]) -> None:
    for name in wanted:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise ArgumentError(
                f"{what} asks for '{name}', which is none of the op's",
                allowed=", ".join(known) or "numbers: it has no arguments",
                next=f"did you mean '{near[0]}'?" if near else "",
            )
