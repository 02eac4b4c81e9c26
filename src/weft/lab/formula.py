"""References that the page sends: formulas over arrays, e.g. `exp(x) / sum(exp(x), axis=-1)`.

A formula is data, not host code: the tree is walked here node by node, and only the functions and
operators of the two tables below can be reached. There are no attributes but `.T` and no imports.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from weft.errors import ArgumentError

LONGEST = 2000
_OPERATORS: Mapping[type, Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: np.true_divide,
    ast.FloorDiv: np.floor_divide, ast.Mod: np.mod, ast.Pow: np.power, ast.MatMult: np.matmul,
    ast.USub: operator.neg, ast.UAdd: operator.pos,
    ast.BitAnd: np.bitwise_and, ast.BitOr: np.bitwise_or, ast.BitXor: np.bitwise_xor,
    ast.Invert: np.invert,
    ast.Lt: np.less, ast.LtE: np.less_equal, ast.Gt: np.greater, ast.GtE: np.greater_equal,
    ast.Eq: np.equal, ast.NotEq: np.not_equal,
}  # fmt: skip
_NAMES = (
    "abs", "exp", "log", "log2", "log1p", "expm1", "sqrt", "sin", "cos", "tan", "tanh", "floor",
    "ceil", "sign", "square", "maximum", "minimum", "where", "clip", "sum", "prod", "max", "min",
    "mean", "var", "std", "cumsum", "cumprod", "argmax", "argmin", "sort", "transpose", "dot",
    "matmul", "outer", "concatenate", "stack", "flip", "roll", "diff", "convolve", "bincount",
    "isnan", "arange",
)  # fmt: skip
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {name: getattr(np, name) for name in _NAMES}
_KEYWORDS = ("axis", "keepdims", "mode", "minlength")


def names(text: str) -> list[str]:
    """The arrays and sizes that a formula uses."""
    nodes = ast.walk(_parse(text))
    used = [n.id for n in nodes if isinstance(n, ast.Name) and n.id not in _FUNCTIONS]
    return list(dict.fromkeys(used))


def evaluate(text: str, values: Mapping[str, Any]) -> Any:
    """The value of a formula; raises ArgumentError where it cannot be computed."""
    tree = _parse(text)
    try:
        with np.errstate(all="ignore"):
            return _value(tree, values)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise ArgumentError(
            f"the reference '{text}' cannot be computed", got=f"{type(error).__name__}: {error}"
        ) from None


def _parse(text: str) -> ast.expr:
    if len(text) > LONGEST:
        raise ArgumentError("the reference is too long", allowed=f"{LONGEST} characters")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ArgumentError(
            f"the reference '{text[:80]}' is no formula",
            got=str(getattr(error, "msg", error)),
            allowed="e.g. 2 * x + y",
        ) from None


def _value(node: ast.expr, values: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=int() | float() | bool() as number):
            return number
        case ast.Constant(value="same" | "valid" | "full" as mode):  # of convolve
            return mode
        case ast.Name(id=name) if name in values:
            return values[name]
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return tuple(_value(part, values) for part in parts)
        case ast.UnaryOp(op=op, operand=of) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(of, values))
        case ast.BinOp(op=op, left=left, right=right) if type(op) in _OPERATORS:
            sides = [np.asarray(_value(side, values)) for side in (left, right)]
            return _OPERATORS[type(op)](*sides)  # of arrays: no repeated tuples, no huge powers
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left, values), _value(right, values))
        case ast.Attribute(value=of, attr="T"):
            return np.asarray(_value(of, values)).T
        case ast.Subscript(value=of, slice=at):
            return np.asarray(_value(of, values))[_index(at, values)]
        case ast.Call(func=ast.Name(id=name), args=args, keywords=more) if name in _FUNCTIONS:
            options = {k.arg: _value(k.value, values) for k in more if k.arg in _KEYWORDS}
            if len(options) != len(more):
                raise _refused(node, values)
            return _FUNCTIONS[name](*(_value(a, values) for a in args), **options)
    raise _refused(node, values)


def _index(node: ast.expr, values: Mapping[str, Any]) -> Any:
    match node:
        case ast.Slice(lower=low, upper=high, step=step):
            ends = (None if e is None else _value(e, values) for e in (low, high, step))
            return slice(*ends)
        case ast.Tuple(elts=parts):
            return tuple(_index(part, values) for part in parts)
        case ast.Constant(value=None):
            return None
    return _value(node, values)


def _refused(node: ast.expr, values: Mapping[str, Any]) -> ArgumentError:
    return ArgumentError(
        "a reference is a formula of the arrays and sizes",
        got=ast.unparse(node)[:80],
        allowed=f"{', '.join(values)}; + - * / @ ** and {', '.join(sorted(_FUNCTIONS))}",
    )
