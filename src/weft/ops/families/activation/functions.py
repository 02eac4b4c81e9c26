"""The activations: C++ of each one and of its derivatives, one row per op."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from weft.ops.families.elementwise.expressions import NUMERALS, ElementwiseOp


@dataclass(frozen=True)
class Activation:
    """One op, with the name and the arguments that it has in torch.nn.functional.

    forward    C++ of the input a and the numbers s and t
    backward   C++ of the input's gradient, from the output's gradient a and b: the input, or the
               output where `of_output`
    bend       torch's expression for the derivative of backward / a: (b, *numbers); None: 0
    numbers    names and defaults of s and t
    of_output  True if the output is saved for the backward pass; torch saves the same tensor
    integers   "same" if the result has the input's dtype, "promoted" if it has the default one, ""
               if integers are rejected
    """

    name: str
    doc: str
    forward: str
    backward: str
    bend: Callable[..., Tensor] | None = None
    numbers: tuple[tuple[str, float], ...] = ()
    of_output: bool = False
    integers: str = ""

    @property
    def saved(self) -> str:
        """The name of the tensor that the backward pass reads."""
        return "output" if self.of_output else "input"

    @property
    def rows(self) -> tuple[ElementwiseOp, ElementwiseOp]:
        """The elementwise expressions of both passes."""
        s, names = NUMERALS[: len(self.numbers)], tuple(n for n, _ in self.numbers)
        integers = self.integers == "same"
        return (
            ElementwiseOp(self.name, f"a{s}", self.forward, self.doc, integers=integers,
                names=("input", *names)),
            ElementwiseOp(f"{self.name}_backward", f"ab{s}", self.backward,
                f"{self.name}'s gradient", integers=integers, names=("dy", self.saved, *names)),
        )  # fmt: skip


_GELU_LINEAR, _GELU_CUBIC = math.sqrt(2 / math.pi), 0.044715
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805


def _gelu(x: Tensor) -> Tensor:
    return (2 - x * x) * (-0.5 * x * x).exp() / math.sqrt(2 * math.pi)


def _gelu_tanh(x: Tensor) -> Tensor:
    t = (_GELU_LINEAR * (x + _GELU_CUBIC * x**3)).tanh()
    first = _GELU_LINEAR * (1 + 3 * _GELU_CUBIC * x * x)
    second = 6 * _GELU_LINEAR * _GELU_CUBIC * x
    return (1 - t * t) * (first + 0.5 * x * (second - 2 * t * first * first))


def _silu(x: Tensor) -> Tensor:
    s = x.sigmoid()
    return s * (1 - s) * (2 + x * (1 - 2 * s))


def _softplus(x: Tensor, beta: float, threshold: float) -> Tensor:
    s = (x * beta).sigmoid()
    return torch.where(x * beta > threshold, 0, beta * s * (1 - s))


def _mish(x: Tensor) -> Tensor:
    s, t = x.sigmoid(), torch.nn.functional.softplus(x).tanh()
    return (1 - t * t) * s * (2 + x * (1 - s - 2 * t * s))


def _logsigmoid(x: Tensor) -> Tensor:
    s = x.sigmoid()
    return -s * (1 - s)


ACTIVATIONS = (
    Activation("relu", "input where it is positive, else 0", "a < C(0) ? C(0) : a",
               "b <= C(0) ? C(0) : a", of_output=True, integers="same"),
    Activation("leaky_relu", "input where it is positive, else negative_slope * input",
               "a > C(0) ? a : a * s", "b > C(0) ? a : a * s", numbers=(("negative_slope", 0.01),)),
    Activation("relu6", "input limited to 0 to 6", "clamped<C>(a, 0, 6)",
               "b <= C(0) || b >= C(6) ? C(0) : a"),
    Activation("hardtanh", "input limited to min_val to max_val", "clamped<C>(a, s, t)",
               "b <= s || b >= t ? C(0) : a", numbers=(("min_val", -1.0), ("max_val", 1.0))),
    Activation("sigmoid", "1 / (1 + exp(-input))", "sigmoid<C>(a)", "a * b * (C(1) - b)",
               lambda y: 1 - 2 * y, of_output=True, integers="promoted"),
    Activation("logsigmoid", "the logarithm of sigmoid", "logsigmoid<O, C>(a)",
               "a * sigmoid<C>(-b)", _logsigmoid),
    Activation("hardsigmoid", "(input + 3) / 6, limited to 0 to 1", "hardsigmoid<C>(a)",
               "b > C(-3) && b < C(3) ? a * C(1.0 / 6) : C(0)"),
    Activation("tanh", "the hyperbolic tangent", "hyperbolic<O, C>(a)", "a * (C(1) - b * b)",
               lambda y: -2 * y, of_output=True, integers="promoted"),
    Activation("softsign", "input / (1 + abs(input))", "a * reciprocal(C(1) + absolute<C>(a))",
               "a * softsign_slope<C>(b)", lambda x: -2 * x.sign() / (1 + x.abs()) ** 3),
    Activation("silu", "input * sigmoid(input)", "silu<O, C>(a)", "a * silu_slope<C>(b)", _silu),
    Activation("hardswish", "input * hardsigmoid(input)", "hardswish<C>(a)",
               "b <= C(-3) ? C(0) : b < C(3) ? a * (b * C(1.0 / 3) + C(0.5)) : a",
               lambda x: (x.abs() < 3) / 3),
    Activation("mish", "input * tanh(softplus(input))", "mish<O, C>(a)", "a * mish_slope<C>(b)",
               _mish),
    Activation("softplus", "log(1 + exp(beta * input)) / beta; input itself where beta * input "
               "exceeds the threshold", "softplus<O, C>(a, s, t)", "a * softplus_slope<C>(b, s, t)",
               _softplus, (("beta", 1.0), ("threshold", 20.0))),
    Activation("elu", "input where it is positive, else alpha * (exp(input) - 1)",
               "elu<O, C>(a, s, 1, 1)", "a * elu_slope<C>(b, s, 1, 1)",
               lambda x, alpha: torch.where(x <= 0, alpha * x.exp(), 0), (("alpha", 1.0),)),
    Activation("celu", "input where it is positive, else alpha * (exp(input / alpha) - 1)",
               "elu<O, C>(a, s, 1, C(1) / s)", "a * elu_slope<C>(b, s, 1, C(1) / s)",
               lambda x, alpha: torch.where(x <= 0, (x / alpha).exp() / alpha, 0),
               (("alpha", 1.0),)),
    Activation("selu", "elu with the alpha and the scale of self-normalising networks",
               "elu<O, C>(a, C(SELU_ALPHA), C(SELU_SCALE), 1)",
               "a * elu_slope<C>(b, C(SELU_ALPHA), C(SELU_SCALE), 1)",
               lambda x: torch.where(x <= 0, _SELU_SCALE * _SELU_ALPHA * x.exp(), 0)),
)  # fmt: skip
"""Every activation but gelu."""

GELU = {
    "none": Activation("gelu", "input times the integral of the normal distribution up to it; "
                       "approximate='tanh' computes it by tanh", "gelu<O, C>(a)",
                       "a * gelu_slope<O, C>(b)", _gelu),
    "tanh": Activation("gelu", "", "gelu_tanh<O, C>(a)", "a * gelu_tanh_slope<O, C>(b)",
                       _gelu_tanh),
}  # fmt: skip
"""gelu by the value of `approximate`."""
