"""Arithmetic of sizes as text: `cdiv(n, 256)`, `2*M*N*K`, `x.shape[0] if x.numel() > 4 else 1`.

Every text that weft computes is computed here: sizes of operations, launches of rungs, rules of
PyTorch's ops. A text is checked node by node and compiled once. What passes can compute sizes and
do nothing else: no names but those it is given, no attributes but those of `_ATTRIBUTES`, and no
number that grows without bounds (`9**9**9**9`).
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any, NamedTuple

from weft.errors import ArgumentError
from weft.kernels import cdiv

LONGEST = 2000
"""Characters of a text."""
LARGEST = 2**63 - 1
"""The largest number that is written, raised to a power, or a size."""
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
"""What may be written, besides constants, names, attributes and calls, which are looked at."""
_POWER, _PRODUCT = "__power__", "__product__"


class Expression(NamedTuple):
    """A text that can be computed, and the names that it needs."""

    text: str
    names: tuple[str, ...]
    code: CodeType

    def value(self, values: Mapping[str, Any]) -> Any:
        """What it is for these values; raises ArgumentError."""
        try:
            return eval(self.code, _GLOBALS, values)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise ArgumentError(
                f"'{self.text}' cannot be computed", got=f"{type(error).__name__}: {error}"
            ) from error


@functools.lru_cache(maxsize=4096)
def expression(text: str) -> Expression:
    """A text, checked and compiled. Python 3.11 cannot make two trees at a time, in two threads:
    what threads compute is to be computed once before they start."""
    text = text.strip()
    if len(text) > LONGEST:
        raise ArgumentError(
            "an expression is too long",
            got=f"{len(text)} characters, {text[:40]!r}...",
            allowed=f"{LONGEST}",
        )
    try:
        tree = ast.parse(text, mode="eval")
        names = [_check(text, node) for node in ast.walk(tree.body)]
        code = compile(ast.fix_missing_locations(_Bounded().visit(tree)), "<expression>", "eval")
    except (SyntaxError, ValueError) as error:
        where = f", column {error.offset}" if isinstance(error, SyntaxError) else ""
        raise ArgumentError(
            f"'{text}' is no expression",
            got=f"{getattr(error, 'msg', error)}{where}",
            allowed="arithmetic of sizes, e.g. cdiv(n, 256)",
        ) from error
    except (RecursionError, MemoryError) as error:
        raise ArgumentError(
            "an expression is nested too deeply", got=f"{text[:40]!r}..."
        ) from error
    return Expression(text, tuple(dict.fromkeys(n for n in names if n)), code)


def evaluate(text: str, sizes: Mapping[str, Any]) -> Any:
    """The number, or the tuple of numbers, that a text is for these sizes."""
    made = expression(text)
    for name in made.names:
        if name not in sizes:
            raise _unknown(text, name, sizes)
    return made.value(sizes)


def number(text: str, sizes: Mapping[str, Any]) -> float:
    """The number that a text is."""
    value = evaluate(text, sizes)
    if not isinstance(value, int | float):
        raise ArgumentError(f"'{text}' is not a number", got=_short(value))
    return value


def whole(text: str, sizes: Mapping[str, Any]) -> int:
    """The size that a text is, rounded towards zero."""
    return _whole(text, evaluate(text, sizes))


def wholes(text: str, sizes: Mapping[str, Any]) -> tuple[int, ...]:
    """The sizes that a text is: `(a, b)`, or one."""
    value = evaluate(text, sizes)
    return tuple(_whole(text, part) for part in (value if isinstance(value, tuple) else (value,)))


def _whole(text: str, value: Any) -> int:
    if not isinstance(value, int | float) or not -LARGEST <= value <= LARGEST:  # nor is a NaN
        raise ArgumentError(
            f"'{text}' is not a size", got=_short(value), allowed=f"a number up to {LARGEST}"
        )
    return int(value)


def _short(value: Any) -> str:
    if isinstance(value, int) and abs(value) > LARGEST:  # its digits may be thousands
        return f"a number of {value.bit_length()} bits"
    return repr(value)


def _check(text: str, node: ast.AST) -> str:
    """Refuses what an expression may not have; the name where a node is one."""
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
    """Products and powers become calls of functions that look at their operands first."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        name = {ast.Pow: _POWER, ast.Mult: _PRODUCT}.get(type(node.op))
        if name is None or (name == _PRODUCT and _is_number(node.left) and _is_number(node.right)):
            return node
        return ast.Call(ast.Name(name, ast.Load()), [node.left, node.right], [])


def _is_number(node: ast.expr) -> bool:
    """Is it certain that a node is no tuple, so that its product needs no look?"""
    return isinstance(node, ast.Constant | ast.Compare | ast.UnaryOp) or (
        isinstance(node, ast.BinOp) and _is_number(node.left) and _is_number(node.right)
    )


def _power(base: Any, exponent: Any) -> Any:
    if abs(exponent) > HIGHEST or abs(base) > LARGEST:
        raise OverflowError(f"a power above {HIGHEST}, or of a number above 2**63")
    return base**exponent


def _product(left: Any, right: Any) -> Any:
    if isinstance(left, tuple | list) or isinstance(right, tuple | list):
        raise TypeError("a product of shapes")
    return left * right


_GLOBALS: dict[str, Any] = {
    "__builtins__": {}, **FUNCTIONS, _POWER: _power, _PRODUCT: _product,
}  # fmt: skip
