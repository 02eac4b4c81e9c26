"""Evaluates size expressions: `cdiv(n, 256)`, `2*M*N*K`, `x.shape[0] if x.numel() > 4 else 1`.

This is the only evaluator in weft: sizes of operations, launches of rungs and rules of PyTorch ops
use it. An expression is checked node by node and compiled once. It can use only the names that it
is given, the attributes in `_ATTRIBUTES`, and numbers below a bound (`9**9**9**9` is refused).
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any, NamedTuple

from weft.errors import ArgumentError
from weft.kernels import cdiv

LONGEST, DEEPEST = 2000, 200
"""The most characters of an expression, and the most levels."""
LARGEST = 2**63 - 1
"""The largest literal, the largest base of a power, and the largest size."""
HIGHEST = 64
"""The highest power."""

FUNCTIONS: Mapping[str, Callable[..., Any]] = {"cdiv": cdiv, "min": min, "max": max, "abs": abs}
_ATTRIBUTES = ("shape", "ndim", "numel", "size", "dim", "stride", "element_size")
_NODES = (
    ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Div, ast.Mod, ast.Pow,
    ast.UnaryOp, ast.USub, ast.UAdd, ast.Not, ast.BoolOp, ast.And, ast.Or,
    ast.Compare, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq,
    ast.IfExp, ast.Tuple, ast.Starred, ast.Subscript, ast.Slice, ast.Load,
)  # fmt: skip
"""Node types that are always allowed. Constants, names, attributes and calls are checked."""
_POWER, _PRODUCT = "__power__", "__product__"


class Expression(NamedTuple):
    """A compiled expression and the names that it uses."""

    text: str
    names: tuple[str, ...]
    code: CodeType

    def value(self, values: Mapping[str, Any]) -> Any:
        """Evaluate the expression; raise ArgumentError."""
        try:
            return eval(self.code, _GLOBALS, values)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise ArgumentError(
                f"'{self.text}' cannot be computed", got=f"{type(error).__name__}: {error}"
            ) from error


@functools.lru_cache(maxsize=4096)
def expression(text: str) -> Expression:
    """Check and compile an expression.

    `ast.parse` of Python 3.11 is not thread-safe: compile expressions before threads use them.
    """
    text = text.strip()
    if len(text) > LONGEST:
        raise ArgumentError(
            "an expression is too long",
            got=f"{len(text)} characters, {text[:40]!r}...",
            allowed=f"{LONGEST}",
        )
    try:
        tree = ast.parse(text, mode="eval")
        if _depth(tree) > DEEPEST:
            raise _too_deep(text)
        names = [_check(text, node) for node in ast.walk(tree.body)]
        code = compile(ast.fix_missing_locations(_Bounded().visit(tree)), "<expression>", "eval")
    except (SyntaxError, ValueError) as error:
        where = f", column {error.offset}" if isinstance(error, SyntaxError) else ""
        raise ArgumentError(
            f"'{text}' is not an expression",
            got=f"{getattr(error, 'msg', error)}{where}",
            allowed="arithmetic of sizes, e.g. cdiv(n, 256)",
        ) from error
    except (RecursionError, MemoryError) as error:
        raise _too_deep(text) from error
    return Expression(text, tuple(dict.fromkeys(n for n in names if n)), code)


def _depth(tree: ast.AST) -> int:
    """The levels of a tree, counted without recursion: its limit is the whole process's."""
    depth, level = 0, [tree]
    while level:
        depth, level = depth + 1, [child for node in level for child in ast.iter_child_nodes(node)]
    return depth


def _too_deep(text: str) -> ArgumentError:
    return ArgumentError("an expression is nested too deeply", got=f"{text[:40]!r}...")


def evaluate(text: str, sizes: Mapping[str, Any]) -> Any:
    """Evaluate an expression to a number or a tuple of numbers."""
    made = expression(text)
    for name in made.names:
        if name not in sizes:
            raise _unknown(text, name, sizes)
    return made.value(sizes)


def number(text: str, sizes: Mapping[str, Any]) -> float:
    """Evaluate an expression to one number."""
    value = evaluate(text, sizes)
    if not isinstance(value, int | float):
        raise ArgumentError(f"'{text}' is not a number", got=_short(value))
    return value


def whole(text: str, sizes: Mapping[str, Any]) -> int:
    """Evaluate an expression to one integer, rounded towards zero."""
    return _whole(text, evaluate(text, sizes))


def wholes(text: str, sizes: Mapping[str, Any]) -> tuple[int, ...]:
    """Evaluate an expression `(a, b)`, or a single one, to integers."""
    value = evaluate(text, sizes)
    return tuple(_whole(text, part) for part in (value if isinstance(value, tuple) else (value,)))


def _whole(text: str, value: Any) -> int:
    if not isinstance(value, int | float) or not -LARGEST <= value <= LARGEST:  # also refuses NaN
        raise ArgumentError(
            f"'{text}' is not a size", got=_short(value), allowed=f"a number up to {LARGEST}"
        )
    return int(value)


def _short(value: Any) -> str:
    if (
        isinstance(value, int) and abs(value) > LARGEST
    ):  # printing thousands of digits is slow and useless
        return f"a number of {value.bit_length()} bits"
    return repr(value)


def _check(text: str, node: ast.AST) -> str:
    """Raise for a node that is not allowed; return the name that the node uses, or ""."""
    match node:
        case ast.Constant(value=int() | float() as number) if abs(number) <= LARGEST:
            return ""
        case ast.Name(id=name) if not name.startswith("__"):
            return "" if name in FUNCTIONS else name
        case ast.Attribute(attr=attr) if attr in _ATTRIBUTES:
            return ""
        case ast.Call(func=ast.Name(id=name), keywords=[]) if name in FUNCTIONS:
            return ""
        case ast.Call(func=ast.Attribute(), keywords=[]):
            return ""
        case _ if isinstance(node, _NODES):
            return ""
    raise ArgumentError(
        f"'{text}' cannot be computed from the sizes",
        got=ast.unparse(node) if isinstance(node, ast.expr) else type(node).__name__,
        allowed=_allowed(),
        next="write it as a function where one is taken: grid=lambda x: ...",
    )


def _unknown(text: str, name: str, sizes: Mapping[str, Any]) -> ArgumentError:
    return ArgumentError(
        f"'{text}' cannot be computed from the sizes",
        got=name,
        allowed=f"{_allowed()}, and {', '.join(sizes) or 'no size is given'}",
    )


def _allowed() -> str:
    return (
        "numbers, + - * / // % **, comparisons, and, or, not, a if b else c, "
        f"{', '.join(FUNCTIONS)}, .{' .'.join(_ATTRIBUTES)}"
    )


class _Bounded(ast.NodeTransformer):
    """Replaces products and powers by calls that check their operands first."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        name = {ast.Pow: _POWER, ast.Mult: _PRODUCT}.get(type(node.op))
        if name is None or (name == _PRODUCT and _is_number(node.left) and _is_number(node.right)):
            return node
        return ast.Call(ast.Name(name, ast.Load()), [node.left, node.right], [])


def _is_number(node: ast.expr) -> bool:
    """True if a node cannot be a tuple; then its product needs no check at run time."""
    return isinstance(node, ast.Constant | ast.Compare | ast.UnaryOp) or (
        isinstance(node, ast.BinOp) and _is_number(node.left) and _is_number(node.right)
    )


def _power(base: Any, exponent: Any) -> Any:
    if abs(exponent) > HIGHEST or abs(base) > LARGEST:
        raise OverflowError(f"a power above {HIGHEST}, or of a number above 2**63")
    return base**exponent


def _product(left: Any, right: Any) -> Any:
    if isinstance(left, tuple | list) or isinstance(right, tuple | list):
        # Python would repeat the tuple, which can allocate without bound.
        raise TypeError("a product of shapes")
    return left * right


_GLOBALS: dict[str, Any] = {"__builtins__": {}, **FUNCTIONS, _POWER: _power, _PRODUCT: _product}
