"""Losses of pairs of numbers: a table of their formulas, and the plans of their kernels."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from weft.kernels import Kernel, cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.layouts import broadcast, dense_strides, memory_order, merged
from weft.ops.core.plan import Argument, Buffer, Counters, Layout, Plan, Pointer, Step
from weft.ops.core.rows import BLOCK
from weft.ops.families.elementwise.copies import contiguous
from weft.ops.families.elementwise.jobs import BroadcastOperand, ElementwiseJob, Strategy
from weft.ops.families.elementwise.pointwise import strategies
from weft.ops.families.loss import model
from weft.ops.families.loss.operands import Operands
from weft.ops.families.loss.structs import STRUCTS, Pairs


@dataclass(frozen=True)
class Loss:
    """A loss: C++ expressions of x, t, w and `option` for its value and its derivatives.

    weights  the optional tensors after the input and the target, in the order of the schema:
             "weight" multiplies the loss, "pos_weight" is w
    option   the name of its option, if it has one
    other    the expressions where the option is True, for an option that is not a number
    """

    name: str
    value: str
    dx: str
    dt: str
    weights: tuple[str, ...] = ()
    option: str = ""
    other: tuple[str, str, str] | None = None

    def expressions(self, options: dict[str, Any]) -> dict[str, str]:
        swap = self.other is not None and options[self.option]
        texts = self.other if swap and self.other else (self.value, self.dx, self.dt)
        return dict(zip(("VALUE", "DX", "DT"), (f"({text})" for text in texts), strict=True))


_BINARY = '(assert(x >= 0 && x <= 1 && "an input must be a probability, 0 to 1"), '
LOSSES = (
    Loss("mse_loss", "(x - t) * (x - t)", "2 * (x - t)", "2 * (t - x)"),
    Loss("l1_loss", "fabsf(x - t)", "sign(x - t)", "sign(t - x)"),
    Loss(
        "smooth_l1_loss",
        "fabsf(x - t) < option ? 0.5f * (x - t) * (x - t) / option : fabsf(x - t) - 0.5f * option",
        "fabsf(x - t) < option ? (x - t) / option : sign(x - t)",
        "fabsf(x - t) < option ? (t - x) / option : sign(t - x)",
        option="beta",
    ),
    Loss(
        "huber_loss",
        "fabsf(x - t) <= option ? 0.5f * (x - t) * (x - t)"
        " : option * (fabsf(x - t) - 0.5f * option)",
        "fabsf(x - t) <= option ? x - t : option * sign(x - t)",
        "fabsf(x - t) <= option ? t - x : option * sign(t - x)",
        option="delta",
    ),
    Loss(
        "binary_cross_entropy",
        f"{_BINARY}(t - 1) * clamped(log1pf(-x)) - t * clamped(logf(x)))",
        f"{_BINARY}(x - t) / maximum((1 - x) * x, 1e-12f))",
        f"{_BINARY}log1pf(-x) - logf(x))",
        weights=("weight",),
    ),
    Loss(
        "binary_cross_entropy_with_logits",
        "(1 - t) * x + (1 + (w - 1) * t) * softplus(-x)",
        "(w * t + 1 - t) / (1 + expf(-x)) - w * t",
        "(w - 1) * softplus(-x) - x",
        weights=("weight", "pos_weight"),
    ),
    Loss(
        "kl_div",
        "xlogx(t) - t * x",
        "-t",
        "(t == 0 ? 0 : logf(t)) + t / t - x",
        option="log_target",
        other=("expf(t) * (t - x)", "-expf(t)", "expf(t) * (t - x + 1)"),
    ),
)


def result(
    x: Layout, target: Layout, upstream: Layout | None, weights: Sequence[Layout | None]
) -> Buffer:
    """The buffer of one number per pair: in the memory order that all tensors have, if they do.

    upstream  the gradients of the losses, if there is one per pair
    """
    orders = {memory_order(t) for t in (x, target, upstream) if t is not None}
    # Weights repeat in row-major order.
    order = orders.pop() if len(orders) == 1 and not any(weights) else None
    return Buffer(x.shape, x.dtype, strides=dense_strides(x.shape, order) if order else None)


def candidates(loss: Loss, backward: bool, request: Request) -> list[Candidate]:
    """Candidates for a loss or a gradient.

    One number per pair of tensors with gaps is an elementwise expression. Otherwise rows with gaps
    are read in place, or copied first.
    """
    first = int(backward)
    x, target = request.inputs[first : first + 2]
    assert x is not None and target is not None
    none = request.options["reduction"] == "none"
    upstream = request.inputs[0] if backward and none else None
    pairs = result(x, target, upstream, request.inputs[first + 2 :])
    out = pairs if none or backward else Buffer((), x.dtype)
    moved = x.numel * x.itemsize * (2 + (backward or none))
    time = model.stream_time(request.target, moved)
    if x.numel == 0 and (none or backward):
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]
    build = _gradients if backward else _losses
    ordered = pairs.strides is not None
    tensors = [t for t in (x, target, upstream) if t is not None]
    copies = not ordered and not all(t.contiguous for t in tensors)
    if none and copies and not any(request.inputs[first + 2 :]):
        return _by_expression(loss, request, first, out)
    make = functools.partial(_PairCall, loss, request, out, first, ordered)
    if not copies:
        return [Candidate("pairs", time, "one launch", lambda: build(make()))]
    cost = time + make().tensors.cost
    made = [Candidate("pairs", cost, "copies, then one launch", lambda: build(make()))]
    gaps = _gaps(x, target)
    if gaps is not None:
        why = f"one launch, rows of {gaps.row} elements with gaps"
        made.append(Candidate("pairs with gaps", time, why, lambda: build(make(gaps))))
    return made


class _Gaps(NamedTuple):
    """Rows of contiguous elements, and the elements between them in the input and the target."""

    row: int
    x: int
    target: int


def _gaps(x: Layout, target: Layout) -> _Gaps | None:
    """The rows of two tensors; None if their elements are apart, or rows are not evenly apart."""
    walk = merged(x.shape, [x.strides, target.strides])
    if len(walk.sizes) != 2 or any(strides[1] != 1 for strides in walk.strides):
        return None
    row = walk.sizes[1]
    return _Gaps(row, *(strides[0] - row for strides in walk.strides))


def _by_expression(loss: Loss, request: Request, first: int, out: Buffer) -> list[Candidate]:
    """Candidates for one number per pair of tensors with any strides."""
    order = (first, first + 1, *range(first))  # x, t and the gradients of the losses: a, b and c
    operands = []
    for number in order:
        t = request.inputs[number]
        assert t is not None
        operands.append(
            BroadcastOperand(
                source.ctype(t.dtype), t.itemsize, t.strides, t.aligned, Pointer(number)
            )
        )
    which = ("DT" if request.options["of_target"] else "DX") if first else "VALUE"
    parameters = ", ".join(f"[[maybe_unused]] float {p}" for p in ("x", "t", "w", "option"))
    function = f"[]({parameters}) {{ return {loss.expressions(request.options)[which]}; }}"
    expression = f"{'c * ' if first else ''}{function}(a, b, 1.0f, s)"
    option = float(request.options.get(loss.option, 0.0)) if loss.option else 0.0
    job = ElementwiseJob(
        expression, "float", out.shape, tuple(operands), source.ctype(out.dtype),
        out.dtype.itemsize, Pointer(len(request.inputs)), (option, 0),
    )  # fmt: skip

    def built(strategy: Strategy) -> Plan:
        return Plan((strategy.build(),), (out,))

    return [
        Candidate(strategy.name, strategy.cost, strategy.why, functools.partial(built, strategy))
        for strategy in strategies(job, request.target)
    ]


def _losses(call: _PairCall) -> Plan:
    reduced = call.request.options["reduction"] != "none"
    kernel = call.kernel("losses", reduced)
    shared = call.tensors.shared(call.blocks) if reduced and call.blocks > 1 else None
    args = (*call.inputs, call.tensors.output(0), shared, Counters(), call.problem)
    return call.tensors.plan(Step(kernel, (call.blocks,), (BLOCK,), args, early=True))


def _gradients(call: _PairCall) -> Plan:
    upstream, _ = call.operand(0)
    kernel = call.kernel("gradients", call.request.options["of_target"])
    args = (upstream, *call.inputs, call.tensors.output(0), call.problem)
    return call.tensors.plan(Step(kernel, (call.blocks,), (BLOCK,), args, early=True))


class _PairCall:
    """The arguments that the kernels share.

    first    the number of the input
    ordered  True if all tensors have the memory order of the result: none needs a copy
    gaps     of the input and the target, which are then not copied
    """

    def __init__(
        self, loss: Loss, request: Request, out: Buffer, first: int, ordered: bool,
        gaps: _Gaps | None = None,
    ) -> None:  # fmt: skip
        self.loss, self.request, self.ordered, self.gaps = loss, request, ordered, gaps
        self.first, self.tensors = first, Operands(request, (out,))
        (px, x), (pt, t) = self.operand(first), self.operand(first + 1)
        assert x is not None and t is not None
        aligned = min(x.aligned, t.aligned)
        self.vector = 16 // x.itemsize if aligned == 16 else 1
        if gaps is not None:
            self.vector = math.gcd(max(1, aligned // x.itemsize), *gaps)
        slots = {"weight": (None, 1), "pos_weight": (None, 1)}
        for i, name in enumerate(loss.weights):
            slots[name] = self._repeated(first + 2 + i, x.shape)
        self.inputs = (px, pt, slots["weight"][0], slots["pos_weight"][0])
        option = request.options.get(loss.option, 0.0) if loss.option else 0.0
        reduction = request.options["reduction"]
        each = {"mean": x.numel, "batchmean": x.shape[0] if x.shape else 1}.get(reduction, 1)
        self.problem = Pairs(
            x.numel, slots["weight"][1], slots["pos_weight"][1], float(option),
            1 / each if each else math.nan, reduction == "none", *(gaps or (1, 0, 0)),
        ).pack()  # fmt: skip
        wanted = cdiv(x.numel, BLOCK * self.vector * 2)
        self.blocks = max(1, min(wanted, 8 * request.target.sms))
        self.ctype = source.ctype(x.dtype)

    def operand(self, number: int) -> tuple[Argument, Layout | None]:
        """A tensor whose elements follow each other in the order of the result."""
        in_place = self.gaps is not None and number in (self.first, self.first + 1)
        if self.ordered or in_place:
            return Pointer(number), self.request.inputs[number]
        return self.tensors.dense(number)

    def kernel(self, name: str, flag: bool) -> Kernel:
        gaps, last = (str(value).lower() for value in (self.gaps is not None, flag))
        words = f"{name}<{self.ctype}, {self.vector}, {gaps}, {last}>"
        expressions = self.loss.expressions(self.request.options)
        return source.kernel("loss/pairs.cu", words, **STRUCTS, **expressions)

    def _repeated(self, number: int, shape: Sequence[int]) -> tuple[Any, int]:
        """A weight that repeats after some elements, and after how many."""
        w = self.request.inputs[number]
        if w is None:
            return None, 1
        sizes = tuple(w.shape)
        while sizes and sizes[0] == 1:
            sizes = sizes[1:]
        if w.contiguous and (not sizes or tuple(shape[len(shape) - len(sizes) :]) == sizes):
            return Pointer(number), math.prod(sizes)
        whole = Layout(w.dtype, tuple(shape), broadcast(w, shape), w.aligned)
        end = self.tensors.buffer(Buffer(whole.shape, w.dtype))
        copy = contiguous(whole, Pointer(number), end, self.request.target)
        self.tensors.steps += copy.steps
        return end, math.prod(shape)
