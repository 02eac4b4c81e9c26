"""The expressions of the elementwise family: C++, gradients and dtypes, one row per op."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from weft.ops.core import source

LETTERS = "abc"
"""Names of tensors in expressions."""
NUMERALS = "st"
"""Names of numbers in expressions."""
_NUMBERS = {bool: torch.bool, int: torch.int64, float: torch.float64}
NUMBERS = tuple(_NUMBERS)
"""Python number types that may be an operand."""


@dataclass(frozen=True)
class ElementwiseOp:
    """One op.

    operands    the letters of its arguments in order: tensors a, b and c, numbers s and t
    expression  C++ over the letters; C is the type of the arithmetic
    gradients   torch expressions for each operand: (grad, *operands) -> gradients
    by_result   True if `gradients` gets the result instead of the operands
    condition   True if the first operand is boolean and has no part in the result's dtype
    integers    True if integers and booleans are computed as integers
    boolean     True if the result is boolean
    numbers     True if one of two operands may be a Python number
    names       parameter names, if they differ from the letters
    """

    name: str
    operands: str
    expression: str
    doc: str
    gradients: Callable[..., Sequence[Any]] | None = None
    integers: bool = True
    boolean: bool = False
    numbers: bool = True
    names: tuple[str, ...] = ()
    by_result: bool = False
    condition: bool = False

    @property
    def arguments(self) -> tuple[str, ...]:
        return self.names or tuple(self.operands)


def _unary(
    name: str, expression: str, doc: str, gradient: Callable[[Any, Any], Any], of: str = "operand"
) -> ElementwiseOp:
    """A function of one real number; its gradient by that of the result, and an operand or result.

    Each op in a gradient is a launch.
    """
    return ElementwiseOp(name, "a", expression, doc, lambda g, a: (gradient(g, a),), integers=False,
               by_result=of == "result")  # fmt: skip


def _compared(name: str, operator: str, doc: str = "") -> ElementwiseOp:
    return ElementwiseOp(name, "ab", f"a {operator} b", doc or f"a {operator} b", boolean=True)


def _larger(g: Any, a: Any, b: Any) -> Sequence[Any]:
    """Equal operands share the gradient, as in torch."""
    return g * ((a > b) + (a == b) * 0.5), g * ((a < b) + (a == b) * 0.5)


def _smaller(g: Any, a: Any, b: Any) -> Sequence[Any]:
    return _larger(g, b, a)


def _power(g: Any, a: Any, b: Any) -> Sequence[Any]:
    log = torch.where(a > 0, a, torch.ones_like(a)).log()  # 0 ** b does not depend on b > 0
    return g * torch.where(b == 0, 0, b * a ** (b - 1)), g * a**b * log


def _chosen(g: Any, condition: Any, *values: Any) -> Sequence[Any]:
    """The gradient goes to the operand that was chosen; a condition has none."""
    return None, torch.where(condition, g, 0), torch.where(condition, 0, g)


def _choice(
    name: str, operands: str, gradients: Callable[..., Sequence[Any]] | None
) -> ElementwiseOp:
    """The op where, with numbers for letters of NUMERALS."""
    expression = f"a ? {operands[1]} : {operands[2]}"
    doc = "input where condition is true, else other"
    names = ("condition", "input", "other")
    return ElementwiseOp(name, operands, expression, doc, gradients, names=names, condition=True)


WHERE = _choice("where", "abc", _chosen)
WHERE_NUMBERS = (
    _choice("where_number", "abs", lambda g, *v: _chosen(g, *v)[:2]),
    _choice("number_where", "asb", lambda g, *v: _chosen(g, *v)[::2]),
    _choice("numbers_where", "ast", None),
)
"""The op where with a number as its last operand, as its second one, and as both."""
ROWS = (
    ElementwiseOp("add", "ab", "a + b", "a + b", lambda g, a, b: (g, g)),
    ElementwiseOp("sub", "ab", "a - b", "a - b", lambda g, a, b: (g, -g)),
    ElementwiseOp("mul", "ab", "a * b", "a * b", lambda g, a, b: (g * b, g * a)),
    ElementwiseOp("div", "ab", "a / b", "a / b", lambda g, a, b: (g / b, -g * a / (b * b)),
        integers=False),
    ElementwiseOp("maximum", "ab", "maximum<C>(a, b)", "the larger one, or NaN", _larger),
    ElementwiseOp("minimum", "ab", "minimum<C>(a, b)", "the smaller one, or NaN", _smaller),
    ElementwiseOp("pow", "ab", "power<C>(a, b)", "a to the power of b", _power),
    ElementwiseOp("fma", "abc", "a * b + c", "a * b + c", lambda g, a, b, c: (g * b, g * a, g)),
    ElementwiseOp("axpy", "sab", "s * a + b", "alpha * x + y", lambda g, s, a, b: (g * s, g),
        numbers=False, names=("alpha", "x", "y")),
    ElementwiseOp("neg", "a", "-a", "-a", lambda g, a: (-g,)),
    ElementwiseOp("abs", "a", "absolute<C>(a)", "the absolute value", lambda g, a: (g * a.sign(),)),
    _unary("exp", "exp(a)", "e to the power of a", lambda g, y: g * y, of="result"),
    _unary("log", "log(a)", "the natural logarithm", lambda g, a: g / a),
    _unary("sqrt", "sqrt(a)", "the square root", lambda g, y: g / (2 * y), of="result"),
    _unary("rsqrt", "rsqrt(a)", "1 / sqrt(a)", lambda g, y: g * (-0.5 * y**3), of="result"),
    _unary("reciprocal", "C(1) / a", "1 / a", lambda g, y: g * (y * -y), of="result"),
    _unary("sin", "sin(a)", "the sine", lambda g, a: g * a.cos()),
    _unary("cos", "cos(a)", "the cosine", lambda g, a: g * -a.sin()),
    _compared("less", "<"), _compared("less_equal", "<="), _compared("greater", ">"),
    _compared("greater_equal", ">="), _compared("equal", "=="), _compared("not_equal", "!="),
    _compared("logical_and", "&&", "whether neither is 0"),
    _compared("logical_or", "||", "whether one is not 0"),
    ElementwiseOp("logical_not", "a", "!a", "whether a is 0", boolean=True),
)  # fmt: skip
"""Every named op of the family."""


def with_number(row: ElementwiseOp, first: bool) -> ElementwiseOp:
    """A row of two operands with a number as the first or the second of them."""
    change = {"a": "s", "b": "a"} if first else {"b": "s"}
    # Only whole words: `absolute` contains both letters.
    expression = re.sub(r"\b[ab]\b", lambda m: change.get(m[0], m[0]), row.expression)
    name = f"number_{row.name}" if first else f"{row.name}_number"
    gradients = row.gradients and _of_one(row.gradients, 1 if first else 0)
    operands = "sa" if first else "as"
    return replace(row, name=name, operands=operands, expression=expression, gradients=gradients)


def _of_one(gradients: Callable[..., Sequence[Any]], which: int) -> Callable[..., Sequence[Any]]:
    return lambda g, a, b: (gradients(g, a, b)[which],)


# ---- dtypes ------------------------------------------------------------------------------------
def dtypes(row: ElementwiseOp, operands: Sequence[Any]) -> tuple[torch.dtype, torch.dtype]:
    """The dtypes of the arithmetic and of the result, as torch promotes the operands."""
    operands = operands[1:] if row.condition else operands
    # A number changes the dtype only if its category is higher, as in torch.
    tensors = [o for o in operands if not isinstance(o, NUMBERS)]
    dtype = _promoted(tensors) if tensors else torch.bool
    for number in (o for o in operands if isinstance(o, NUMBERS)):
        kind = _NUMBERS[type(number)]
        if _category(kind) > _category(dtype):
            dtype = torch.get_default_dtype() if kind.is_floating_point else kind
    if not row.integers and not dtype.is_floating_point:
        dtype = torch.get_default_dtype()
    return dtype, torch.bool if row.boolean else dtype


def _promoted(tensors: Sequence[Any]) -> torch.dtype:
    """The common dtype. 0-d tensors count only if their category is higher, as in torch."""
    kinds = [[t.dtype for t in tensors if bool(len(t.shape)) is full] for full in (True, False)]
    full, single = (functools.reduce(torch.promote_types, k) if k else None for k in kinds)
    if full is None or single is None:
        dtype = full or single
        assert dtype is not None
        return dtype
    return torch.promote_types(full, single) if _category(single) > _category(full) else full


def _category(dtype: torch.dtype) -> int:
    return 2 if dtype.is_floating_point else 0 if dtype is torch.bool else 1


def arithmetic(dtype: torch.dtype) -> str:
    """The C++ type of the arithmetic; half precision is rounded only at the end."""
    if dtype in (torch.float16, torch.bfloat16):
        return "float"
    return "int" if dtype is torch.bool else source.ctype(dtype)


def constant(number: Any, compute: str) -> float:
    """A number in the type of the arithmetic."""
    return float(number) if compute in ("float", "double") else int(number)
