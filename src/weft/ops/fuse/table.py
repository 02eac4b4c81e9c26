"""The operations that a fused kernel may contain: one row each, with its C++ expression."""

from __future__ import annotations

import math
from typing import Any

import torch

from weft.ops.core import source

ELEMENTWISE = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "neg": "-{0}",
    "abs": "absolute<C>({0})",
    "sign": "C(({0} > C(0)) - ({0} < C(0)))",
    "reciprocal": "C(1) / {0}",
    "square": "{0} * {0}",
    "sqrt": "sqrt({0})",
    "rsqrt": "rsqrt({0})",
    "exp": "exp({0})",
    "exp2": "exp2({0})",
    "expm1": "expm1({0})",
    "log": "log({0})",
    "log2": "log2({0})",
    "log10": "log10({0})",
    "log1p": "log1p({0})",
    "sin": "sin({0})",
    "cos": "cos({0})",
    "tan": "tan({0})",
    "asin": "asin({0})",
    "acos": "acos({0})",
    "atan": "atan({0})",
    "atan2": "atan2({0}, {1})",
    "sinh": "sinh({0})",
    "cosh": "cosh({0})",
    "tanh": "tanh({0})",
    "sigmoid": "sigmoid<C>({0})",
    "erf": "erf({0})",
    "erfc": "erfc({0})",
    "relu": "{0} < C(0) ? C(0) : {0}",
    "floor": "floor({0})",
    "ceil": "ceil({0})",
    "round": "rint({0})",
    "trunc": "trunc({0})",
    "maximum": "maximum<C>({0}, {1})",
    "minimum": "minimum<C>({0}, {1})",
    "clamp_min": "maximum<C>({0}, {1})",
    "clamp_max": "minimum<C>({0}, {1})",
    "pow": "power<C>({0}, {1})",
    "where": "{0} ? {1} : {2}",
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "gt": "{0} > {1}",
    "ge": "{0} >= {1}",
    "isnan": "{0} != {0}",
    "logical_and": "{0} && {1}",
    "logical_or": "{0} || {1}",
    "logical_xor": "!{0} != !{1}",
    "logical_not": "!{0}",
}
"""C++ of an element; C is the type of the arithmetic. Operands are values of the type C."""

QUICK = {
    "exp": "quick_exp<O>({0})",
    "exp2": "quick_exp2({0})",
    "div": "divide_approx({0}, {1})",
    "reciprocal": "reciprocal({0})",
    "sigmoid": "reciprocal(C(1) + quick_exp<O>(-{0}))",
    "tanh": "hyperbolic<O>({0})",
}
"""Shorter rows for values that are rounded to half precision in the end; their relative error is
below 1e-5. O is a type of half precision."""

FUNCTIONS = frozenset({
    "gelu", "gelu_backward", "silu", "silu_backward", "mish", "mish_backward", "softplus",
    "softplus_backward", "elu",
})  # fmt: skip
"""Rows with all options as operands, as cuda/activations.cuh has them."""
ELEMENTWISE |= {
    "gelu": "gelu<O>({0})",
    "gelu_tanh": "gelu_tanh<O>({0})",
    "gelu_backward": "{0} * gelu_slope<O>({1})",
    "gelu_backward_tanh": "{0} * gelu_tanh_slope<O>({1})",
    "silu": "silu<O>({0})",
    "silu_backward": "{0} * silu_slope({1})",
    "mish": "mish<O>({0})",
    "mish_backward": "{0} * mish_slope({1})",
    "softplus": "softplus<O>({0}, {1}, {2})",
    "softplus_backward": "{0} * softplus_slope({1}, {2}, {3})",
    "elu": "elu<O>({0}, {1}, {2}, {3})",
}

POWERS = {
    2: "{0} * {0}",
    3: "{0} * {0} * {0}",
    4: "({0} * {0}) * ({0} * {0})",
    0.5: "sqrt({0})",
    -0.5: "rsqrt({0})",
    -1: "C(1) / {0}",
}
"""Powers of floating-point numbers with these exponents."""

SLOW = frozenset({
    "exp", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan",
    "atan2", "sinh", "cosh", "tanh", "sigmoid", "erf", "erfc", "pow",
}) | FUNCTIONS  # fmt: skip
"""Operations that take as long as several others."""

BITWISE = {"bitwise_and": "logical_and", "bitwise_or": "logical_or", "bitwise_not": "logical_not"}
"""Operations that are logical ones for booleans; for integers they are not fused."""

CASTS = frozenset({"_to_copy", "convert_element_type"})
SAME = frozenset({"clone", "alias", "detach", "lift_fresh_copy"})
"""Operations that return their operand's elements."""
VIEWS = frozenset({"unsqueeze", "squeeze", "expand", "view", "broadcast_in_dim", "_unsafe_view"})
"""Operations that may only repeat or rename elements of a value inside a kernel."""
FILLS = {
    "full": 1, "scalar_tensor": 0, "full_like": 1, "fill": 1, "zeros_like": None, "ones_like": None,
}  # fmt: skip
"""Operations whose elements are one number, and the argument that has it."""


REDUCTIONS = {"sum": "Sum", "mean": "Sum", "amax": "Max", "amin": "Min"}
"""Reductions along the last dimensions, and the operation of cuda/operations.cuh that joins."""
VARIANCES = frozenset({"var", "var_mean"})


def name_of(target: Any) -> str:
    """The name of an ATen or prims operation without its overload: "add" for aten.add.Tensor.

    An operation in place has the name of the other one: a graph refers to its result, never to
    its operand again.
    """
    if isinstance(target, torch._ops.OpOverload):
        name = str(target._schema.name).partition("::")[2]
        return name.removesuffix("_") if target._schema.is_mutable else name
    return str(getattr(target, "__name__", target))


def compute_type(dtype: torch.dtype) -> str:
    """The C++ type of values of a dtype in registers; half precision becomes float."""
    if dtype in (torch.float16, torch.bfloat16):
        return "float"
    return source.ctype(dtype)


def literal(value: Any, ctype: str) -> str:
    """A Python number as C++ of a type."""
    if ctype == "bool":
        return "true" if value else "false"
    if ctype not in ("float", "double"):
        return f"static_cast<{ctype}>({int(value)}ll)"
    if math.isinf(value):
        return f"{'least' if value < 0 else 'greatest'}<{ctype}>()"
    if math.isnan(value):
        return f"not_a_number<{ctype}>()"
    return f"{float(value)!r}{'f' if ctype == 'float' else ''}"
