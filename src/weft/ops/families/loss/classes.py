"""Calls with labels: the view of the logits, and the struct that the kernels take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.kernels import Kernel, cdiv
from weft.ops.core import source
from weft.ops.core.checks import check_dtype
from weft.ops.core.choose import Request
from weft.ops.core.plan import Argument, Buffer, Counters, Layout, Pointer, Step
from weft.ops.core.rows import BLOCK, View, view_of
from weft.ops.families.loss import model
from weft.ops.families.loss.operands import Operands
from weft.ops.families.loss.structs import STRUCTS, Classes

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
LABELS = (torch.int64, torch.int32, torch.uint8)
REDUCTIONS = ("none", "mean", "sum")
"""In the order of `Reduction` in classes.cuh."""


@dataclass(frozen=True)
class ClassificationCall:
    """A loss with labels, or its gradient, or both.

    upstream, loss, gradient  addresses; None: the kernel has no such tensor
    """

    tensors: Operands
    file: str
    view: View
    x: Pointer
    target: Argument
    weight: Argument
    upstream: Argument
    loss: Pointer | None
    gradient: Pointer | None
    types: tuple[str, str]
    itemsize: int
    label_size: int

    @property
    def count(self) -> int:
        return self.view.outer * self.view.inner

    @property
    def options(self) -> dict[str, Any]:
        return self.tensors.request.options

    @property
    def reduction(self) -> int:
        return REDUCTIONS.index(self.options["reduction"])

    @property
    def smooth(self) -> bool:
        """True if labels are smoothed."""
        return bool(self.options["label_smoothing"] > 0)

    @property
    def modes(self) -> tuple[bool, bool]:
        """(True if the kernel writes losses, True if it writes gradients)."""
        return self.loss is not None, self.gradient is not None

    @property
    def vectors(self) -> tuple[int, bool]:
        """(elements of a vector, True if every row has whole vectors only)."""
        v = self.view
        return v.vector, v.vector > 1 and v.n % v.vector == 0

    @property
    def problem(self) -> bytes:
        """The struct `Classes`."""
        v, o = self.view, self.options
        return Classes(
            self.count, v.inner, v.stride, o["ignore_index"], v.n, self.reduction,
            o.get("label_smoothing", 0.0), self.reduction == 0,
        ).pack()  # fmt: skip

    def kernel(self, name: str, *parameters: object) -> Kernel:
        words = (*self.types, *(str(p).lower() for p in parameters))
        return source.kernel(self.file, f"{name}<{', '.join(words)}>", **STRUCTS)

    def labels(self) -> tuple[Argument, ...]:
        """The arguments for labels, and for the gradients of their losses."""
        return self.target, self.weight, self.upstream, self._total()

    def results(self, blocks: int) -> tuple[Argument, ...]:
        """The arguments for results: the loss, partial sums, the gradient, and a counter."""
        partials: Argument = None
        if self.loss is not None and self.reduction and blocks > 1:
            partials = self.tensors.shared(blocks)
        return self.loss, partials, self.gradient, Counters()

    def _total(self) -> Argument:
        """Add the launch that sums all weights, unless each block can do it."""
        if (
            self.gradient is None
            or self.options["reduction"] != "mean"
            or self.count <= model.BLOCK_LABELS
        ):
            return None
        total = self.tensors.buffer(Buffer((1,), torch.float32))
        blocks = min(self.tensors.request.target.sms, cdiv(self.count, 16 * BLOCK))
        partials = self.tensors.shared(blocks)
        args = (self.target, self.weight, partials, total, Counters(), self.problem)
        kernel = self.kernel("total_weight")
        self.tensors.steps.append(Step(kernel, (blocks,), (BLOCK,), args, early=True))
        return total


def call_of(
    request: Request, file: str, outputs: tuple[Buffer, ...], *, first: int, loss: bool,
    gradient: bool,
) -> ClassificationCall:  # fmt: skip
    """The call of a request whose logits, labels and weights are the inputs from `first` on."""
    tensors = Operands(request, outputs)
    x, dim = request.inputs[first], class_dim(request.inputs[first])
    assert x is not None
    view, pointer = view_of(x, dim), Pointer(first)
    if view is None:
        made, dense = tensors.dense(first)
        assert isinstance(made, Pointer) and dense is not None
        pointer, view = made, view_of(dense, dim)
        assert view is not None
    (target, labels), (weight, _) = tensors.dense(first + 1), tensors.dense(first + 2)
    upstream = tensors.dense(0)[0] if first else None
    assert labels is not None
    return ClassificationCall(
        tensors, file, view, pointer, target, weight, upstream,
        tensors.output(0) if loss else None, tensors.output(int(loss)) if gradient else None,
        (source.ctype(x.dtype), source.ctype(labels.dtype)), x.itemsize, labels.itemsize,
    )  # fmt: skip


def class_dim(x: Layout | Any) -> int:
    """The dimension of the classes: the second, or the only one."""
    return 0 if len(x.shape) == 1 else 1


def label_shape(x: Any) -> tuple[int, ...]:
    """The shape of the labels of logits x."""
    dim = class_dim(x)
    return (*x.shape[:dim], *x.shape[dim + 1 :])


def check(
    name: str, x: Any, target: Any, weight: Any, reduction: str, probabilities: bool = False
) -> None:
    """Raise for logits, labels, weights or a reduction that do not fit.

    probabilities  the target may have those of all classes instead of labels
    """
    check_dtype(name, "input", x, DTYPES, next="convert it: input.float()")
    if probabilities and target.is_floating_point():
        if target.shape != x.shape or target.dtype != x.dtype or not x.dim():
            raise ArgumentError(
                f"weft.ops.{name}: a target of probabilities must be like 'input'",
                got=f"target {list(target.shape)} {target.dtype}",
                allowed=f"{list(x.shape)} {x.dtype}",
                next="target.to(input.dtype); labels of classes are integers",
            )
    elif target.dtype not in LABELS:
        raise ArgumentError(
            f"weft.ops.{name}: 'target' must have the labels of classes",
            got=str(target.dtype),
            allowed="int64, int32, uint8",
            next="convert it: target.long()",
        )
    elif x.dim() == 0 or tuple(target.shape) != label_shape(x):
        raise ArgumentError(
            f"weft.ops.{name}: target has shape {list(target.shape)}, input {list(x.shape)}",
            allowed="input [C] and target []; [N, C] and [N]; [N, C, d1, …] and [N, d1, …]",
        )
    classes = x.shape[class_dim(x)]
    if not classes and target.numel():
        raise ArgumentError(
            f"weft.ops.{name}: input must have at least 1 class, got shape {list(x.shape)}"
        )
    if weight is not None and (tuple(weight.shape) != (classes,) or weight.dtype != x.dtype):
        raise ArgumentError(
            f"weft.ops.{name}: 'weight' must have one number per class, of the dtype of 'input'",
            got=f"weight {list(weight.shape)} {weight.dtype}, {classes} classes of {x.dtype}",
            allowed=f"[{classes}] {x.dtype}",
        )
    check_reduction(name, reduction)


def check_reduction(name: str, reduction: str) -> None:
    if reduction not in REDUCTIONS:
        raise ArgumentError(
            f"weft.ops.{name}: reduction is {reduction!r}", allowed=", ".join(map(repr, REDUCTIONS))
        )


def save(count: int, ctx: Any, inputs: Any, output: Any) -> None:
    """Save the first inputs for the backward pass, and the others as options."""
    ctx.save_for_backward(*inputs[:count])
    ctx.options = inputs[count:]
