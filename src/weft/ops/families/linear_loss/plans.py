"""Plan the loss of a linear layer: the logits of one chunk of rows after another.

For each chunk: a product makes its logits; a launch computes its losses and puts the gradient in
the place of the logits; products of that are the gradients of the input and of the weight.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import NamedTuple

import torch

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate, Request, choose
from weft.ops.core.plan import (
    Argument,
    Buffer,
    Counters,
    Layout,
    Map,
    Plan,
    Pointer,
    Step,
    partials,
)
from weft.ops.families.linear_loss import model, sums
from weft.ops.families.linear_loss.tensors import AddressedTensor, LossTensors, tensors_of
from weft.ops.families.loss.classes import REDUCTIONS
from weft.ops.families.loss.structs import STRUCTS, Classes
from weft.ops.families.matmul import pipelined
from weft.ops.families.matmul.matmul import MATMUL, candidates_of
from weft.ops.families.matmul.product import Product, Roles, product_of

LINEAR = Roles(left=0, right=1, bias=2, transposed=True)
LOSSES = "loss/cross_entropy.cu"
THREADS = 256
GRADIENTS = ("of_input", "of_weight", "of_bias")
"""The options that say which gradients are wanted."""


class Results(NamedTuple):
    """Addresses of results; None for those that are not wanted.

    loss      a number, or one for each row
    upstream  the gradient of the loss; None: 1
    """

    loss: Pointer | None
    upstream: Pointer | None
    input: Pointer | None
    weight: Pointer | None
    bias: Pointer | None

    @property
    def gradients(self) -> bool:
        return any(p is not None for p in (self.input, self.weight, self.bias))


def candidates(loss: bool, gradient: bool, request: Request) -> list[Candidate]:
    """The plan of a request.

    loss      it returns the loss; else its first input is the loss's gradient
    gradient  it returns gradients
    """
    outputs = _outputs(request, loss, gradient)
    x = request.inputs[0 if loss else 1]
    assert x is not None
    given = request.options["chunk"]
    sizes = [given] if given is not None else model.chunk_sizes(math.prod(x.shape[:-1]))
    calls = {size: _call(request, outputs, loss, gradient, size) for size in sizes}
    choices = [model.Choice(size, _cost(*call), _scratch(*call)) for size, call in calls.items()]
    used = model.least_memory(choices)
    call, _ = calls[used.rows]
    others = "".join(f"; {c.rows}: {c.time * 1e6:.0f} µs" for c in choices if c is not used)
    why = f"{len(call.chunks)} chunks, {used.memory / 1e6:.1f} MB beside the results{others}"
    build = functools.partial(_plan, request, outputs, loss, gradient, used.rows)
    return [Candidate(f"chunks of {call.chunk} rows", used.time, why, build)]


def _scratch(call: LossTensors, to: Results) -> float:
    """Bytes of logits, and of the sums of the weight's gradient beside it."""
    size = call.input.layout.itemsize
    logits = call.chunk * call.pitch * size
    if to.weight is None or len(call.chunks) == 1 or size == 4:
        return logits
    each = 4 if call.input.layout.dtype is torch.float16 else 2
    return logits + each * call.classes * call.hidden


def _outputs(request: Request, loss: bool, gradient: bool) -> tuple[Buffer, ...]:
    x, w, target = request.inputs[0 if loss else 1 :][:3]
    assert x is not None and w is not None and target is not None
    none = request.options["reduction"] == "none"
    made = [Buffer(target.shape if none else (), torch.float32)] if loss else []
    if gradient:
        empty = 0 in x.shape[:-1]
        for name, shape in zip(GRADIENTS, (x.shape, w.shape, w.shape[:1]), strict=True):
            made.append(Buffer(shape if request.options[name] else (0,), x.dtype, zeroed=empty))
    return tuple(made)


def _call(
    request: Request, outputs: tuple[Buffer, ...], loss: bool, gradient: bool, chunk: int
) -> tuple[LossTensors, Results]:
    call = tensors_of(request, 0 if loss else 1, outputs, chunk)
    wanted = [gradient and request.options[name] for name in GRADIENTS]
    places = [call.made.output(loss + i) if yes else None for i, yes in enumerate(wanted)]
    head = (call.made.output(0), None) if loss else (None, Pointer(0))
    return call, Results(*head, *places)


def _plan(
    request: Request, outputs: tuple[Buffer, ...], loss: bool, gradient: bool, chunk: int
) -> Plan:
    call, to = _call(request, outputs, loss, gradient, chunk)
    dtype = call.input.layout.dtype
    logits = call.made.buffer(Buffer((call.chunk, call.pitch), dtype))
    rows = _Rows(call, to)
    weight = None if to.weight is None else sums.weight_gradient(call, to.weight)
    bias = call.made.buffer(Buffer((call.classes,), torch.float32)) if to.bias else None
    for number, (first, count) in enumerate(call.chunks):
        x = call.part(first, count)
        _multiply(call, x, logits)
        call.made.steps.append(rows.step(logits, first, count))
        if to.input is not None:
            _of_input(call, logits, count, replace_offset(to.input, call, first))
        if weight is not None:
            weight.add(logits, x, number)
        if bias is not None and to.bias is not None:
            call.made.steps.append(_of_bias(call, logits, count, number, bias, to.bias))
    if to.loss is not None and request.options["reduction"] != "none":
        kernel = source.kernel(LOSSES, "join_rows<float>", **STRUCTS)
        args = (rows.partials, to.loss, _classes(call, call.rows))
        call.made.steps.append(Step(kernel, (1,), (THREADS,), args, early=True))
    return call.made.plan()


def replace_offset(to: Pointer, call: LossTensors, first: int) -> Pointer:
    """The address of row `first` of the input's gradient."""
    return Pointer(to.number, first * call.hidden * call.input.layout.itemsize)


# ---- products ----------------------------------------------------------------------------------
class _Logits(NamedTuple):
    """The product that makes a chunk's logits.

    padded  it also writes what is between the rows, which the tensor map of the weight lacks
    """

    request: Request
    product: Product
    candidates: list[Candidate]
    padded: bool


def _logits(call: LossTensors, x: Layout) -> _Logits:
    bias = None if call.bias is None else call.bias.layout
    options = {"activation": "", "precision": "fp32"}
    request = Request("linear", (x, call.weight.layout, bias), options, call.request.target)
    out = Buffer((x.shape[0], call.pitch), x.dtype)
    made = replace(product_of(request, LINEAR), row_c=call.pitch, out=out)
    if bias is None and call.pitch > call.classes and x.itemsize == 2:
        # Whole vectors take fewer stores than rows that end anywhere.
        whole = replace(made, n=call.pitch)
        if found := pipelined.candidates(whole, request.target):
            return _Logits(request, whole, found, True)
    return _Logits(request, made, candidates_of(made, request), False)


def _multiply(call: LossTensors, x: AddressedTensor, logits: Pointer) -> None:
    made = _logits(call, x.layout)
    plan = choose(made.request, made.candidates).used.build()
    if made.padded:
        plan = replace(plan, steps=tuple(_without_padding(call, step) for step in plan.steps))
    bias = None if call.bias is None else call.bias.pointer
    call.made.run(plan, (x.pointer, call.weight.pointer, bias), (logits,))


def _without_padding(call: LossTensors, step: Step) -> Step:
    """The launch with maps of the weight that end where it ends: what is outside reads as 0."""

    def cut(argument: Argument) -> Argument:
        if not isinstance(argument, Map) or argument.pointer.number != LINEAR.right:
            return argument
        k, _, batch = argument.request.dims
        return argument._replace(request=replace(argument.request, dims=(k, call.classes, batch)))

    return replace(step, args=tuple(map(cut, step.args)))


def _input_request(call: LossTensors, rows: int) -> Request:
    layouts = (call.logits(rows), call.weight.layout)
    return Request("matmul", layouts, {"precision": "fp32"}, call.request.target)


def _of_input(call: LossTensors, logits: Pointer, rows: int, to: Pointer) -> None:
    request = _input_request(call, rows)
    used = choose(request, candidates_of(product_of(request, MATMUL), request)).used
    call.made.run(used.build(), (logits, call.weight.pointer), (to,))


def _of_bias(
    call: LossTensors, logits: Pointer, rows: int, number: int, found: Pointer, to: Pointer
) -> Step:
    ctype = source.ctype(call.input.layout.dtype)
    kernel = source.kernel("linear_loss/accumulate.cu", f"add_columns<{ctype}>")
    last = number == len(call.chunks) - 1
    args = (logits, found, to, rows, call.classes, call.pitch, int(number == 0), int(last))
    return Step(kernel, (cdiv(call.classes, 64),), (THREADS,), args, early=True)


def _cost(call: LossTensors, to: Results) -> float:
    """Modelled seconds: as many chunks as there are, all of the size of the first."""
    if not call.rows:
        return call.request.target.launch
    gpu, x = call.request.target, call.part(0, call.chunk)
    made = _logits(call, x.layout)
    time = choose(made.request, made.candidates).used.cost
    moved = call.chunk * call.pitch * x.layout.itemsize
    time += model.stream_time(gpu, model.ROWS_TIME * moved * (1 + to.gradients))
    if to.input is not None:
        request = _input_request(call, call.chunk)
        time += choose(request, candidates_of(product_of(request, MATMUL), request)).used.cost
    if to.weight is not None:
        time += sums.cost(call)
    return time * call.rows / call.chunk + 2 * gpu.launch


# ---- losses ------------------------------------------------------------------------------------
def _classes(call: LossTensors, rows: int) -> bytes:
    """The struct of the kernels of classification losses."""
    o = call.request.options
    reduction = REDUCTIONS.index(o["reduction"])
    return Classes(
        rows, 1, call.pitch, o["ignore_index"], call.classes, reduction, o["label_smoothing"],
        reduction == 0,
    ).pack()  # fmt: skip


class _Rows:
    """The launches that compute the losses of chunks, and the memory that they share."""

    def __init__(self, call: LossTensors, to: Results) -> None:
        self.call, self.to = call, to
        none = call.request.options["reduction"] == "none"
        self.partials: Argument = None
        if not none:
            self.partials = call.made.buffer(Buffer((max(call.rows, 1), 2), torch.float32))
        self.losses = to.loss if none else None
        if none and self.losses is None:
            self.losses = call.made.buffer(Buffer((max(call.rows, 1),), torch.float32))
        self.total = self._total() if to.gradients else None

    @property
    def _label(self) -> str:
        return source.ctype(self.call.target.layout.dtype)

    def _total(self) -> Pointer | None:
        """Add the launch that counts the rows which count, if the loss is their mean."""
        call = self.call
        if call.request.options["reduction"] != "mean":
            return None
        total = call.made.buffer(Buffer((1,), torch.float32))
        blocks = min(call.request.target.sms, cdiv(max(call.rows, 1), 16 * THREADS))
        name = source.template("total_weight", "float", self._label)
        kernel = source.kernel(LOSSES, name, **STRUCTS)
        args = (call.target.pointer, None, partials(8 * blocks), total, Counters(),
                _classes(call, call.rows))  # fmt: skip
        call.made.steps.append(Step(kernel, (blocks,), (THREADS,), args, early=True))
        return total

    def step(self, logits: Pointer, first: int, rows: int) -> Step:
        call, x = self.call, self.call.input.layout
        vector = 16 // x.itemsize
        vectors = cdiv(call.classes, vector)
        threads = model.row_threads(vectors)
        registers = max(1, min(model.REGISTER_VECTORS, cdiv(vectors, threads)))
        smooth = call.request.options["label_smoothing"] != 0
        name = source.template(
            "chunk_rows", source.ctype(x.dtype), self._label, vector, call.classes % vector == 0,
            threads, registers, self.to.gradients, smooth,
        )  # fmt: skip
        kernel = source.kernel("linear_loss/rows.cu", name, **STRUCTS)
        none = call.request.options["reduction"] == "none"
        args = (
            logits, _behind(call.target.pointer, first * call.target.layout.itemsize),
            _behind(self.to.upstream, 4 * first * none), self.total,
            None if none else _behind(self.partials, 8 * first),
            _behind(self.losses, 4 * first), call.pitch, _classes(call, rows),
        )  # fmt: skip
        return Step(kernel, (rows,), (threads,), args, early=True)


def _behind(place: Argument, offset: int) -> Argument:
    """An address some bytes further."""
    return Pointer(place.number, place.offset + offset) if isinstance(place, Pointer) else place
