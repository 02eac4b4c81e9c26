"""Plan batch norm with a residual and ReLU: statistics and one more pass, or one launch."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from weft.ops.core import source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.plan import Argument, Buffer, Counters, Layout, Plan, Pointer, Step
from weft.ops.core.target import named
from weft.ops.families.batch_norm_relu import model
from weft.ops.families.norm.batch_norm import statistics_step, why
from weft.ops.families.norm.channels import Channels, channels, result_of
from weft.ops.families.norm.resident import Resident, resident
from weft.ops.families.norm.structs import ChannelShape

FOLDER = "batch_norm_relu"


# ---- tensors -----------------------------------------------------------------------------------
def whole_vectors(made: Channels, most: int) -> Channels:
    """The same with vectors that planes, or rows of channels, are whole numbers of.

    most  elements of a vector at the most: the bits of a mask's byte
    """
    if not made.ragged and made.vector <= most:
        return made
    plane = made.channels if made.flat else made.plane
    vector = math.gcd(plane, min(made.wide, most))
    inner = 1 if made.flat else made.plane // vector
    count = made.size if made.flat else made.size // vector
    return replace(made, ragged=False, small=False, vector=vector, inner=inner, count=count)


def mask_bits(x: torch.Tensor) -> int:
    """Elements of a byte of the mask of x, if all tensors are aligned."""
    given = Layout(x.dtype, tuple(map(int, x.shape)), tuple(map(int, x.stride())), 16)
    dense = given._replace(strides=result_of(given).steps)
    # Dense tensors are not copied, so there need not be a GPU to model copies for.
    made = channels(Request(FOLDER, (dense,), {}, named("sim:h200")), (0,), ())
    return whole_vectors(made, made.wide).vector


def _weight(layouts: Sequence[Any]) -> torch.dtype:
    return next((w.dtype for w in layouts if w is not None), torch.float32)


def _flag(value: bool) -> str:
    return str(value).lower()


def _kernel(
    made: Channels, file: str, name: str, dtypes: Sequence[torch.dtype], *flags: bool
) -> Any:
    """A kernel of this family for the walk of `made`."""
    words = (source.ctype(d) for d in (made.dtype, *dtypes))
    walk = source.template("Walk", made.vector, made.flat, False)
    if made.small:
        walk = source.template("Planes", made.vector)
    text = ", ".join((*words, walk, *map(_flag, flags)))
    return source.kernel(f"{FOLDER}/{file}", f"{name}<{text}>", **ChannelShape.define())


def _resident_step(
    kept: Resident, file: str, name: str, weight: torch.dtype, options: Sequence[bool],
    args: Sequence[Argument],
) -> Step:  # fmt: skip
    """The launch of blocks that keep vectors on chip."""
    made = kept.made
    walk = source.template("Walk", made.vector, made.flat, False, kept.threads)
    if made.small:
        walk = source.template("Planes", made.vector, kept.threads)
    flags = map(_flag, (kept.kept == kept.vectors, *options))
    words = (*map(source.ctype, (made.dtype, weight)), walk, kept.meeting, *flags)
    text = f"{name}<{', '.join(words)}>"
    kernel = source.kernel(f"{FOLDER}/{file}", text, **ChannelShape.define())
    given = (*args, kept.kept, float(made.size), made.request.options["eps"])
    return kept.launch(kernel, given)


# ---- forward -----------------------------------------------------------------------------------
def evaluation(request: Request) -> list[Candidate]:
    """With given statistics: (input, mean, var, weight, bias, residual)."""
    x, residual = request.first, request.inputs[5]
    out = result_of(x)
    if x.numel == 0:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]
    made = channels(request, (5, 0) if residual else (0,), (out,))
    made = whole_vectors(made, made.wide)
    moved = model.forward_bytes(x.numel, x.itemsize, residual is not None, training=False)
    time = made.cost + model.stream_time(request.target, moved)
    return [Candidate("channels", time, why(made), functools.partial(_evaluation_plan, made))]


def _evaluation_plan(made: Channels) -> Plan:
    x, mean, var, weight, bias, residual = made.inputs
    statistics = made.request.inputs[1]
    assert statistics is not None
    dtypes = (statistics.dtype, _weight(made.request.inputs[3:5]))
    given = (x, residual, mean, var, weight, bias)
    return made.plan(_apply(made, given, dtypes, None))


def _apply(
    made: Channels, inputs: Sequence[Argument], dtypes: Sequence[torch.dtype], mask: Argument
) -> Step:
    """The launch that normalises x, adds the residual and cuts."""
    kernel = _kernel(made, "forward.cu", "apply", dtypes, inputs[1] is not None, mask is not None)
    parts, eps = made.writing, made.request.options["eps"]
    return made.step(kernel, parts, *inputs, made.output(0), mask, made.shape(parts), eps)


def training(request: Request) -> list[Candidate]:
    """With the statistics of the input: (input, residual, weight, bias)."""
    x, residual = request.first, request.inputs[1]
    found = Buffer(x.shape[1:2], torch.float32)
    outputs = (result_of(x), found, found, Buffer((0,), torch.uint8))
    if x.numel == 0:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), outputs))]
    made = channels(request, (1, 0) if residual else (0,), outputs)
    made = whole_vectors(made, made.wide)
    moved = model.forward_bytes(x.numel, x.itemsize, residual is not None, training=True)
    time = made.cost + model.stream_time(request.target, moved, launches=2)
    found_ = [Candidate("channels", time, why(made), functools.partial(_two_passes, made))]
    if (kept := resident(made, 1)) is not None:
        more = (moved - 3 * x.numel * x.itemsize) / request.target.bandwidth
        build = functools.partial(_one_launch, kept)
        found_.append(Candidate("resident", made.cost + kept.time + more, kept.why, build))
    return found_


def _masked(made: Channels) -> tuple[Channels, Argument]:
    """The call with a mask as its last output, where there is a residual; and its address."""
    if made.request.inputs[1] is None:
        return made, None
    count = made.size * made.channels // made.vector
    outputs = (*made.outputs[:3], Buffer((count,), torch.uint8))
    return replace(made, outputs=outputs), made.output(3)


def _two_passes(made: Channels) -> Plan:
    made, mask = _masked(made)
    statistics = made.output(1), made.output(2)
    first, scratch = statistics_step(made, *statistics)
    x, residual, weight, bias = made.inputs
    inputs = (x, residual, *statistics, weight, bias)
    dtypes = (torch.float32, _weight(made.request.inputs[2:]))
    return made.plan(first, _apply(made, inputs, dtypes, mask), scratch=scratch)


def _one_launch(kept: Resident) -> Plan:
    made, mask = _masked(kept.made)
    found, scratch = kept.found(made.extra(0))
    outputs = (made.output(0), mask, made.output(1), made.output(2))
    args = (*made.inputs, *outputs, found, Counters(), made.shape(kept.parts))
    weight, residual = _weight(made.request.inputs[2:]), made.inputs[1] is not None
    step = _resident_step(kept, "resident.cu", "normalise", weight, [residual], args)
    return made.plan(step, scratch=scratch)


# ---- backward ----------------------------------------------------------------------------------
def backward(request: Request) -> list[Candidate]:
    """Gradients: (dy, x, mask, mean, var, weight, bias)."""
    x, mask = request.inputs[1:3]
    assert x is not None and mask is not None
    wanted, residual = request.options["weights"], request.options["residual"]
    dtype = _weight(request.inputs[5:])
    sums = Buffer(x.shape[1:2] if wanted else (0,), dtype, zeroed=x.numel == 0)
    second = result_of(x) if residual else Buffer((0,), x.dtype)
    outputs = (result_of(x), second, sums, sums)
    if x.numel == 0:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), outputs))]
    made = channels(request, (0, 1), outputs)
    bits = x.numel // mask.numel if mask.numel else made.wide
    made = whole_vectors(made, bits)
    moved = model.backward_bytes(x.numel, x.itemsize, mask.numel > 0, residual)
    time = made.cost + model.stream_time(request.target, moved, launches=2)
    text = f"{made.summing} blocks per channel, vectors of {made.vector}"
    found = [Candidate("channels", time, text, functools.partial(_plan, made, bits))]
    if (kept := resident(made, 2)) is not None:
        more = (moved - 5 * x.numel * x.itemsize) / request.target.bandwidth
        build = functools.partial(_backward_launch, kept, bits)
        found.append(Candidate("resident", made.cost + kept.time + more, kept.why, build))
    return found


class _Results:
    """The addresses of the outputs that are wanted, and the shift of the mask."""

    def __init__(self, made: Channels, bits: int) -> None:
        options = made.request.options
        self.shift = bits.bit_length() - 1
        mask = made.request.inputs[2]
        self.masked = mask is not None and mask.numel > 0
        self.residual: Pointer | None = made.output(1) if options["residual"] else None
        wanted = options["weights"]
        self.weights = (made.output(2), made.output(3)) if wanted else (None, None)


def _backward_launch(kept: Resident, bits: int) -> Plan:
    made, to = kept.made, _Results(kept.made, bits)
    found, scratch = kept.found(made.extra(0))
    args = (*made.inputs, made.output(0), to.residual, *to.weights, found, Counters(),
            made.shape(kept.parts), to.shift)  # fmt: skip
    weight = _weight(made.request.inputs[5:])
    flags = (to.masked, to.residual is not None)
    step = _resident_step(kept, "resident_backward.cu", "gradients", weight, flags, args)
    return made.plan(step, scratch=scratch)


def _plan(made: Channels, bits: int) -> Plan:
    to, eps, parts = _Results(made, bits), made.request.options["eps"], made.summing
    dtypes = (_weight(made.request.inputs[5:]),)
    found, scratch = made.found(1, 2)
    sums = made.extra(0)
    kernel = _kernel(made, "backward.cu", "sums", dtypes, to.masked)
    args = (*made.inputs, sums, *to.weights, found, Counters(), made.shape(parts), to.shift, eps)
    steps = [made.step(kernel, parts, *args)]
    kernel = _kernel(made, "backward.cu", "gradient", dtypes, to.masked, to.residual is not None)
    shape = made.shape(made.writing)
    args = (*made.inputs, sums, made.output(0), to.residual, shape, to.shift, float(made.size), eps)
    steps.append(made.step(kernel, made.writing, *args))
    return made.plan(*steps, scratch=(Buffer((made.channels, 2), torch.float32), *scratch))
