"""Rules: sizes and shapes as numbers, expressions or functions of an op's arguments."""

from __future__ import annotations

import ast
import difflib
import inspect
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from weft.errors import ArgumentError
from weft.kernels import cdiv

Rule = Callable[[Mapping[str, Any]], Any]
"""(arguments by name) -> value."""

_FUNCTIONS = {"cdiv": cdiv, "min": min, "max": max}
_NAMES = {"__builtins__": {}, **_FUNCTIONS}


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
        tree = ast.parse(text.strip(), what, "eval")
    except SyntaxError as error:
        raise ArgumentError(f"{what} is no expression", got=repr(text)) from error
    used = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    bound = {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    _all_known(what, (n for n in used if n not in _FUNCTIONS and n not in bound), known)
    if text in known:
        return operator.itemgetter(text)
    code = compile(tree, what, "eval")

    def value(given: Mapping[str, Any]) -> Any:
        try:
            return eval(code, _NAMES, given)
        except (AttributeError, IndexError, TypeError) as error:
            raise ArgumentError(
                f"{what} cannot be computed", got=f"{text}: {type(error).__name__}: {error}"
            ) from error

    return value


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
