"""Expressions of Python as C++.

The value of an expression is a Python object where it is known now, e.g. a module, a type or a
number; a tuple of such values; or `Code`. C++ deduces the types of variables.
"""

from __future__ import annotations

import ast
import builtins
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from weft.frontends.cupy.arrays import ndarray, ufunc
from weft.frontends.cupy.host_objects import to_host
from weft.frontends.cupy.jit.builtins import Builtin, Code, SharedMemory
from weft.frontends.cupy.parameters import c_name

_PLAIN = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
    ast.LShift: "<<", ast.RShift: ">>", ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=",
    ast.Gt: ">", ast.GtE: ">=", ast.Is: "==", ast.IsNot: "!=",
}  # fmt: skip
_CALLED = {ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod", ast.Pow: "power"}
_PYTHON: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Pow: operator.pow, ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
    ast.BitXor: operator.xor, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert,
    ast.Not: operator.not_,
}  # fmt: skip
_UNARY = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "!"}
_UFUNCS = {
    "absolute": "weft_jit::absolute", "fabs": "fabs", "power": "weft_jit::power",
    "float_power": "pow", "maximum": "weft_jit::largest", "minimum": "weft_jit::smallest",
    "remainder": "weft_jit::mod", "true_divide": "weft_jit::truediv",
    "divide": "weft_jit::truediv", "floor_divide": "weft_jit::floordiv",
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2", "arcsinh": "asinh",
    "arccosh": "acosh", "arctanh": "atanh",
}  # fmt: skip
_SAME_NAME = frozenset({
    "sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "exp2", "expm1", "log", "log2", "log10",
    "log1p", "sqrt", "cbrt", "floor", "ceil", "trunc", "rint", "fmod", "fmax", "fmin", "hypot",
    "copysign", "isnan", "isinf", "isfinite", "nextafter", "ldexp",
})  # fmt: skip
_OPERATOR_UFUNCS = {"add": "+", "subtract": "-", "multiply": "*"}
_PYTHON_FUNCTIONS = {len: "weft_jit::len", min: "weft_jit::smallest", max: "weft_jit::largest",
                     abs: "weft_jit::absolute"}  # fmt: skip
_CASTS: dict[Any, np.dtype[Any]] = {
    bool: np.dtype(bool),
    int: np.dtype(np.int64),
    float: np.dtype(np.float64),
}


class Expressions:
    """Translates the expressions of one function.

    names    the function's globals and what it closes over
    mode     "cuda": Python's numbers are int and float; "numpy": they have 64 bits
    device   translates another function that is called: function -> its name in C++
    """

    def __init__(
        self, names: Mapping[str, Any], mode: str, device: Callable[[Any], str], where: str
    ) -> None:
        self._names, self._mode, self._device, self._where = names, mode, device, where
        self.variables: set[str] = set()
        self.tuples: dict[str, tuple[Code, ...]] = {}

    def fail(self, node: ast.AST, what: str) -> NotImplementedError:
        line = getattr(node, "lineno", 1)
        return NotImplementedError(
            f"cupyx.jit does not translate {what} ({self._where}, line {line})"
        )

    def code(self, value: Any) -> str:
        """Return a value as C++."""
        if isinstance(value, Code):
            return str(value)
        if isinstance(value, bool | np.bool_):
            return "true" if value else "false"
        if isinstance(value, int):
            small = self._mode == "cuda" and -(2**31) < value < 2**31
            return f"({value}{'' if small else 'LL'})"
        if isinstance(value, complex | np.complexfloating):
            wide = value.dtype if isinstance(value, np.generic) else None
            kind = c_name(wide or np.dtype("F" if self._mode == "cuda" else "D"))
            return f"{kind}({_float(float(value.real))}, {_float(float(value.imag))})"
        if isinstance(value, np.generic):
            text = _float(float(value)) if value.dtype.kind == "f" else str(int(value))
            return f"{_cast(value.dtype)}({text})"
        if isinstance(value, float):
            text = _float(value)
            return f"float({text})" if self._mode == "cuda" else text
        raise NotImplementedError(
            f"cupyx.jit cannot use a {type(value).__name__} in a kernel ({self._where})"
        )

    def value(self, node: ast.AST) -> Any:
        """Return the value of an expression."""
        method = getattr(self, f"_{type(node).__name__}", None)
        if method is None:
            raise self.fail(node, f"the expression `{ast.unparse(node)}`")
        return method(node)

    def text(self, node: ast.AST) -> str:
        """Return an expression as C++."""
        return self.code(self.value(node))

    # ---- names and constants -------------------------------------------------------------------
    def _Constant(self, node: ast.Constant) -> Any:
        return node.value

    def _Name(self, node: ast.Name) -> Any:
        if node.id in self.tuples:
            return self.tuples[node.id]
        if node.id in self.variables:
            return Code(f"v_{node.id}")
        if node.id in self._names:
            return self._names[node.id]
        if hasattr(builtins, node.id):
            return getattr(builtins, node.id)
        raise NameError(f"Unbound name: {node.id} ({self._where}, line {node.lineno})")

    def _Attribute(self, node: ast.Attribute) -> Any:
        base = self.value(node.value)
        return Code(f"{base}.{node.attr}") if isinstance(base, Code) else getattr(base, node.attr)

    def _Tuple(self, node: ast.Tuple) -> Any:
        return tuple(self.value(each) for each in node.elts)

    def _Subscript(self, node: ast.Subscript) -> Any:
        base, index = self.value(node.value), self.value(node.slice)
        if not isinstance(base, Code):
            return base[index]
        parts = index if isinstance(index, tuple) else (index,)
        if not parts:
            return Code(f"weft_jit::at({base})")
        return Code(base + "".join(f"[{self.code(part)}]" for part in parts))

    def _Slice(self, node: ast.Slice) -> Any:
        raise self.fail(node, "slices")

    # ---- operators -----------------------------------------------------------------------------
    def _BinOp(self, node: ast.BinOp) -> Any:
        return self.binary(node, node.op, self.value(node.left), self.value(node.right))

    def binary(self, node: ast.AST, op: ast.AST, left: Any, right: Any) -> Any:
        """Return the value of an operator; numbers that are known now are computed now."""
        kind = type(op)
        if not isinstance(left, Code) and not isinstance(right, Code) and kind in _PYTHON:
            return _PYTHON[kind](left, right)
        if kind in _CALLED:
            return Code(f"weft_jit::{_CALLED[kind]}({self.code(left)}, {self.code(right)})")
        if kind not in _PLAIN:
            raise self.fail(node, f"`{ast.unparse(node)}`")
        return Code(f"({self.code(left)} {_PLAIN[kind]} {self.code(right)})")

    def _UnaryOp(self, node: ast.UnaryOp) -> Any:
        value = self.value(node.operand)
        if not isinstance(value, Code):
            return _PYTHON[type(node.op)](value)
        return Code(f"({_UNARY[type(node.op)]}{value})")

    def _Compare(self, node: ast.Compare) -> Any:
        values = [self.value(each) for each in (node.left, *node.comparators)]
        pairs = zip(node.ops, values, values[1:], strict=False)
        parts = [self.binary(node, op, a, b) for op, a, b in pairs]
        return parts[0] if len(parts) == 1 else self._joined("&&", parts)

    def _BoolOp(self, node: ast.BoolOp) -> Any:
        parts = [self.value(each) for each in node.values]
        return self._joined("&&" if isinstance(node.op, ast.And) else "||", parts)

    def _joined(self, op: str, parts: list[Any]) -> Any:
        if not any(isinstance(part, Code) for part in parts):
            return all(parts) if op == "&&" else any(parts)
        return Code(f"({f' {op} '.join(map(self.code, parts))})")

    def _IfExp(self, node: ast.IfExp) -> Any:
        test = self.value(node.test)
        if not isinstance(test, Code):
            return self.value(node.body if test else node.orelse)
        return Code(f"({test} ? {self.text(node.body)} : {self.text(node.orelse)})")

    # ---- calls ---------------------------------------------------------------------------------
    def _Call(self, node: ast.Call) -> Any:
        function = self.value(node.func)
        args = [self.value(each) for each in node.args]
        options = {k.arg or "**": self.value(k.value) for k in node.keywords}
        if isinstance(function, SharedMemory):
            raise self.fail(node, "jit.shared_memory outside `name = jit.shared_memory(...)`")
        if isinstance(function, Builtin):
            return function.call(args, options, self.code)
        if getattr(function, "__cupyx_jit__", False):
            return Code(f"{self._device(function)}({', '.join(map(self.code, args))})")
        if not any(isinstance(a, Code) for a in (*args, *options.values())):
            known = function(*args, **options)  # a type, a device function, a number
            return to_host(known)[()] if isinstance(known, ndarray) else known
        if options:
            raise self.fail(node, f"named arguments in `{ast.unparse(node)}`")
        return self._called(node, function, args)

    def _called(self, node: ast.Call, function: Any, args: list[Any]) -> Any:
        texts = [self.code(a) for a in args]
        dtype = _CASTS.get(function) if isinstance(function, type) else None
        if dtype is None and isinstance(function, type) and issubclass(function, np.generic):
            dtype = np.dtype(function)
        if dtype is not None:
            return Code(f"{_cast(dtype)}({', '.join(texts)})")
        if isinstance(function, ufunc | np.ufunc):
            return self._ufunc(node, function.__name__, texts)
        if callable(function) and function in _PYTHON_FUNCTIONS:
            return Code(f"{_PYTHON_FUNCTIONS[function]}({', '.join(texts)})")
        raise self.fail(node, f"a call of `{ast.unparse(node.func)}`")

    def _ufunc(self, node: ast.AST, name: str, texts: list[str]) -> Code:
        if name in _OPERATOR_UFUNCS:
            return Code(f"({f' {_OPERATOR_UFUNCS[name]} '.join(texts)})")
        called = _UFUNCS.get(name) or (name if name in _SAME_NAME else None)
        if called is None:
            raise self.fail(node, f"cupy.{name}")
        return Code(f"{called}({', '.join(texts)})")


def _cast(dtype: np.dtype[Any]) -> str:
    """Return a C++ type that can be called with one value."""
    name = c_name(dtype)
    return f"({name})" if " " in name else name


def _float(value: float) -> str:
    if value != value:
        return "__longlong_as_double(0x7ff8000000000000LL)"
    if value in (float("inf"), float("-inf")):
        return f"{'-' if value < 0 else ''}__longlong_as_double(0x7ff0000000000000LL)"
    return repr(value) if any(c in repr(value) for c in ".e") else f"{value!r}.0"
