"""searchsorted: the places of values in sorted sequences."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.plan import Buffer, Plan, Step
from weft.ops.families.loss.operands import Operands
from weft.ops.families.sort import model
from weft.ops.families.sort.model import H200

BLOCK = 256
SAMPLES = 1024
"""Elements of a sequence that a block has in shared memory; as in search.cu."""
COMPARED = {torch.float16: "float", torch.bfloat16: "float"}
"""Types to compare in where they are not those of the elements."""


def _candidates(request: Request) -> list[Candidate]:
    sequence, values, sorter = request.inputs
    assert sequence is not None and values is not None
    dtype = torch.int32 if request.options["out_int32"] else torch.int64
    out = Buffer(values.shape, dtype, zeroed=sequence.numel == 0)
    if 0 in (sequence.numel, values.numel):
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]
    shared = [False, True] if len(sequence.shape) == 1 and sorter is None else [False]
    return [_candidate(request, out, sampled) for sampled in shared]


def _candidate(request: Request, out: Buffer, sampled: bool) -> Candidate:
    sequence, values, _ = request.inputs
    assert sequence is not None and values is not None
    gpu, n = request.target, sequence.shape[-1]
    blocks = cdiv(values.numel, BLOCK)
    if sampled:
        blocks = min(blocks, 8 * gpu.sms)
    steps = math.log2(n) + 1
    near = min(steps, math.log2(SAMPLES)) if sampled else 0
    # Steps in global memory wait for it; those in shared memory are only instructions.
    each = cdiv(values.numel, blocks * BLOCK) * (near + 2.5 * (steps - near)) * H200.searched
    if sampled:
        each += 20 * cdiv(min(n, SAMPLES), BLOCK)
    busy = model.busy(gpu, blocks, BLOCK // 32, 8, each)
    moved = model.moved(gpu, values.numel * (values.itemsize + int(out.dtype.itemsize)))
    time = gpu.launch + H200.latency + max(busy, moved) + (1e-6 if sampled else 0)
    name = "samples in shared memory" if sampled else "binary search"
    build = functools.partial(_plan, request, out, sampled, blocks)
    return Candidate(name, time, f"{blocks} blocks, {n} in a sequence", build)


def _plan(request: Request, out: Buffer, sampled: bool, blocks: int) -> Plan:
    sequence, values, _ = request.inputs
    assert sequence is not None and values is not None
    tensors = Operands(request, (out,))
    addresses = [tensors.dense(i)[0] for i in range(3)]
    n, m = sequence.shape[-1], values.shape[-1] if values.shape else 1
    ctype = source.ctype(values.dtype)
    types = f"{ctype}, {COMPARED.get(values.dtype, ctype)}, {source.ctype(out.dtype)}"
    kernel = source.kernel("sort/search.cu", f"search<{types}, {str(sampled).lower()}>")
    pitch = n if len(sequence.shape) > 1 else 0
    right = bool(request.options["right"]) or request.options["side"] == "right"
    numbers = (values.numel, n, m, pitch, int(right))
    step = Step(kernel, (blocks,), (BLOCK,), (*addresses, tensors.output(0), *numbers))
    return tensors.plan(step)


def _check(sequence: Any, input: Any, out_int32: bool, right: bool, side: Any, sorter: Any) -> None:
    name = "weft.ops.searchsorted"
    if sequence.dtype not in source.CTYPES or sequence.dtype != input.dtype:
        raise ArgumentError(
            f"{name}: sorted_sequence and input must have the same dtype, one with an order",
            got=f"{sequence.dtype} and {input.dtype}",
            allowed=", ".join(str(d).removeprefix("torch.") for d in source.CTYPES),
        )
    one = sequence.dim() == 1
    if not sequence.dim() or not (one or sequence.shape[:-1] == input.shape[:-1] != ()):
        raise ArgumentError(
            f"{name}: each row of input needs a sequence",
            got=f"sorted_sequence {list(sequence.shape)}, input {list(input.shape)}",
            allowed="a sequence of one dimension, or equal sizes of all dimensions but the last",
        )
    if side not in (None, "left", "right") or (right and side == "left"):
        raise ArgumentError(
            f"{name}: side and right must say the same",
            got=f"side={side!r}, right={right}",
            allowed="'left', 'right' or None; None or 'right' with right=True",
        )
    if sorter is not None and (sorter.shape != sequence.shape or sorter.dtype != torch.int64):
        raise ArgumentError(
            f"{name}: each element of sorted_sequence needs an index in sorter",
            got=f"sorter {list(sorter.shape)} of {sorter.dtype}",
            allowed=f"{list(sequence.shape)} of torch.int64",
        )
    if out_int32 and sequence.shape[-1] >= 2**31:
        raise ArgumentError(
            f"{name}: places exceed int32",
            got=f"{sequence.shape[-1]} elements",
            next="leave out_int32 out",
        )


def _redirect(op: Callable[..., Any]) -> Callable[..., Any]:
    """Make a tensor of a number, as PyTorch does."""

    def number(sequence: Any, input: Any, *rest: Any) -> Any:
        if isinstance(input, torch.Tensor):
            return NotImplemented
        made = torch.full((), input, dtype=sequence.dtype, device=sequence.device)
        return op(sequence, made, *rest)

    return number


def _fake(
    sorted_sequence: Any,
    input: Any,
    out_int32: bool = False,
    right: bool = False,
    side: Any = None,
    sorter: Any = None,
) -> Any:
    return input.new_empty(input.shape, dtype=torch.int32 if out_int32 else torch.int64)


DEFINITIONS = (
    Definition(
        name="searchsorted",
        schema="(Tensor sorted_sequence, Tensor input, bool out_int32=False, bool right=False,"
        " str? side=None, Tensor? sorter=None) -> Tensor",
        doc="""The places in sorted sequences where the values of input keep them sorted.

A place is that of the first element that is not smaller than the value; with right=True or
side='right', of the first one that is larger. Each row of input is searched in the row of
sorted_sequence of the same number, or all in its only one. `sorter` has the indices that sort a
sequence that is not sorted. input may be a number.""",
        fake=_fake,
        candidates=_candidates,
        check=_check,
        autocast=None,
        redirect=_redirect,
    ),
)
