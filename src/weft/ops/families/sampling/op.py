"""sample: definition, argument checks and plan."""

from __future__ import annotations

from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core import source
from weft.ops.core.checks import check_dtype
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.plan import Argument, Buffer, Layout, Plan, Pointer, Step
from weft.ops.families.elementwise.copies import contiguous
from weft.ops.families.sampling import model
from weft.ops.families.sampling.structs import Draw

NAME = "sample"
GROUP = "random"
LOGITS = (torch.float32, torch.float16, torch.bfloat16)
SETTINGS = {
    "temperature": torch.float32,
    "top_k": torch.int32,
    "top_p": torch.float32,
    "seed": torch.int64,
    "position": torch.int32,
}
"""The tensors after the logits: a number for each row, or one for all."""
OUTPUT = 1 + len(SETTINGS)
"""The index of the result among a plan's tensors."""


def _check(logits: Any, *settings: Any) -> None:
    check_dtype(NAME, "logits", logits, LOGITS, next="convert them: logits.float()")
    if logits.dim() != 2 or not 0 < logits.shape[1] < 2**31:
        raise ArgumentError(
            f"weft.ops.{NAME}: logits must have the shape [rows, tokens]",
            got=f"shape {list(logits.shape)}",
            allowed="two dimensions, at least one token",
            next="logits[:, -1] are those of the last place of [batch, places, tokens]",
        )
    rows = logits.shape[0]
    for (name, dtype), given in zip(SETTINGS.items(), settings, strict=True):
        if given.dtype is not dtype or tuple(given.shape) not in ((), (1,), (rows,)):
            raise ArgumentError(
                f"weft.ops.{NAME}: {name} must have a number for each row, or one for all",
                got=f"{given.dtype} {list(given.shape)}",
                allowed=f"{dtype} [{rows}] or [1]",
            )


def _step(x: Layout) -> int:
    """The stride of a setting; 0 if all rows share one."""
    return x.strides[0] if x.shape and x.shape[0] > 1 else 0


def _candidates(request: Request) -> list[Candidate]:
    x = request.first
    out = Buffer((x.shape[0],), torch.int64)
    if not x.shape[0]:
        return [Candidate("empty", 0.0, "no rows", lambda: Plan((), (out,)))]
    time = model.draw_time(request.target, x.shape[0], x.shape[1] * x.itemsize)
    why = f"{x.shape[0]} blocks for {request.target.sms} SMs"
    return [Candidate("block per row", time, why, lambda: _plan(request, out))]


def _plan(request: Request, out: Buffer) -> Plan:
    x, at = request.first, Pointer(0)
    before: tuple[Step, ...] = ()
    scratch: tuple[Buffer, ...] = ()
    if x.strides[1] != 1 and x.shape[1] > 1:
        made = Buffer(x.shape, x.dtype)
        at, scratch = Pointer(OUTPUT + 1), (made,)
        before = contiguous(x, Pointer(0), at, request.target).steps
        x = Layout(x.dtype, x.shape, made.steps, 16)
    vector = 16 // x.itemsize
    while vector > 1 and any(
        n % vector for n in (x.shape[1], x.strides[0], x.aligned // x.itemsize)
    ):
        vector //= 2
    threads = model.threads(x.shape[1])
    name = source.template("sample", source.ctype(x.dtype), vector, threads)
    kernel = source.kernel("sampling/sample.cu", name, **Draw.define())
    steps = [_step(s) for s in request.inputs[1:] if s is not None]
    draw = Draw(x.strides[0], x.shape[1], *steps)
    rest = [Pointer(number) for number in range(1, OUTPUT + 1)]
    args: tuple[Argument, ...] = (at, *rest, draw.pack())
    step = Step(kernel, (x.shape[0],), (threads,), args, early=True)
    return Plan((*before, step), (out,), scratch)


def _fake(logits: Any, *settings: Any) -> Any:
    return logits.new_empty((logits.shape[0],), dtype=torch.int64)


DEFINITIONS = (
    Definition(
        name=NAME,
        schema="(Tensor logits, Tensor temperature, Tensor top_k, Tensor top_p, Tensor seed,"
        " Tensor position) -> Tensor",
        doc="""The number of a token for each row of logits [rows, tokens], in one launch.

        Each setting is a tensor with a number for each row, or with one for all: temperature
        (float32), top_k (int32), top_p (float32), seed (int64), position (int32).

        Temperature 0 takes the most probable token, the first of equal ones. Above 0, the logits
        are divided by it, and a token is drawn by its probability: among the top_k most probable
        ones (0: all), and of these among the most probable ones whose probabilities add up to
        top_p (1: all). Tokens that are as probable as the last of them are kept. NaN counts as
        -infinity.

        The token depends on the logits of its row, its settings, seed and position alone: random
        numbers are Philox's of the seed, at the place (position, token).
        """,
        fake=_fake,
        candidates=_candidates,
        check=_check,
        autocast=None,
    ),
)
