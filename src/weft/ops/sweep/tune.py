"""`weft tune`: measure the candidates of a request and store the fastest.

The clock is an argument, so that the decision can be tested without a GPU.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from weft.cluster import notes
from weft.errors import ArgumentError, Error
from weft.ops.core import choose, library
from weft.ops.core.choose import Candidate
from weft.ops.core.function import Function
from weft.ops.core.runner import runner
from weft.ops.core.target import named
from weft.ops.sweep.cases import CASES
from weft.ops.sweep.draw import Call, Tensor
from weft.ops.sweep.time import Clock
from weft.values.sweep import CandidateTime, Tuned

MARGIN = 0.03
"""The least relative gain to replace the current candidate; smaller gains are noise."""
MOST = 2**26
"""The most elements of a random tensor."""


def listed(call: Call, device: str, word: str | None = None) -> Tuned:
    """The candidates of a call with their modelled times; nothing is measured or stored.

    `word` names the GPU to choose for; by default it is that of `device`, torch's.
    """
    function = _function(call.op)
    tensors = [t and t.empty(device) for t in call.tensors]
    request = function.request(*_bound(function, call, tensors))
    if word is not None:
        request = replace(request, target=named(word))
    choice = function.choice(request)
    rows = tuple(CandidateTime(c.name, c.why, c.cost) for c in (choice.used, *choice.others))
    return Tuned(call.op, str(call), request.target.name, rows, choice.used.name, choice.used.name)


def tune(call: Call, device: str, clock: Clock, seed: int = 1) -> Tuned:
    """Measure the candidates of a call in turns and store the winner in the user's cache."""
    return measured(call, device, clock, seed)[0]


def measured(call: Call, device: str, clock: Clock, seed: int) -> tuple[Tuned, str]:
    """The result of `tune`, and the key of the winner in the user's cache."""
    function = _function(call.op)
    generator = torch.Generator(device).manual_seed(seed)
    tensors = [t and t.make(device, generator) for t in call.tensors]
    arguments = _bound(function, call, tensors)
    request = function.request(*arguments)
    choice = function.choice(request)
    inputs = [
        v for a, v in zip(function.arguments, arguments, strict=True) if a.name in function.tensors
    ]
    candidates = (choice.used, *choice.others)
    made = [_runner(c, inputs, torch.device(device)) for c in candidates]
    works = [run for run in made if not isinstance(run, str)]
    notes.note("")  # all have run: no single candidate causes a later crash
    # Timed together, so that all candidates run at the same clock.
    seconds = iter(clock(works) if works else [])
    rows = tuple(
        CandidateTime(c.name, c.why, c.cost, failure=run)
        if isinstance(run, str)
        else CandidateTime(c.name, c.why, c.cost, next(seconds))
        for c, run in zip(candidates, made, strict=True)
    )
    chosen = decide(rows)
    key = choose.key(request)
    stored = choose.remember(key, chosen)
    # Plans chosen before the measurement must not be used again.
    function.forget()
    gpu, used = request.target.name, choice.used.name
    return Tuned(call.op, str(call), gpu, rows, used, chosen, stored), key


def decide(rows: Sequence[CandidateTime]) -> str:
    """The candidate to use; the first row is the current one."""
    measured = {row.name: row.measured for row in rows if row.measured is not None}
    used = rows[0].name
    if not measured:
        raise ArgumentError(
            "no candidate could be measured",
            got="; ".join(f"{row.name}: {row.failure}" for row in rows),
        )
    best = min(measured, key=measured.__getitem__)
    if used in measured and measured[best] >= measured[used] * (1 - MARGIN):
        return used
    return best


def _runner(candidate: Candidate, inputs: Sequence[Any], device: torch.device) -> Any:
    """The runner of a candidate after one call, or the error message if it failed."""
    part = f"candidate {candidate.name!r}"
    if part in notes.banned:
        return "left out: it has ended two workers"
    notes.note(part)
    try:
        run = functools.partial(runner(candidate.build(), len(inputs), device), *inputs)
        run()
    except Error as error:
        return error.what
    return run


def _bound(function: Function, call: Call, tensors: Sequence[Any]) -> list[Any]:
    """All arguments of a call; optional tensors may follow the options in the schema."""
    named = dict(zip(function.tensors, tensors, strict=False))
    return function.bound((), {**named, **call.options})


def _function(op: str) -> Function:
    known = [name for name in library.names() if name not in library.makers()]
    if op not in known:
        raise ArgumentError("weft.ops has no such op", got=op, allowed=", ".join(known))
    return library.function(op)


# ---- calls -------------------------------------------------------------------------------------
def drawn(op: str, count: int, seed: int) -> list[Call]:
    """Random calls, as in the sweep."""
    function = _function(op)
    case = next((c for c in CASES if c.name == op), None)
    # The tensors of a drawn call are the first arguments; axpy begins with a number.
    if case is None or function.arguments[0].name not in function.tensors:
        raise ArgumentError(
            "the sweep draws no calls of this op",
            got=op,
            allowed=", ".join(c.name for c in CASES if c.name == c.op),
            next=f'give the shapes: weft tune {op} --shapes "64x4096;128x1000"',
        )
    rng = random.Random(f"{seed} {op}")
    return [case.draw(rng, MOST) for _ in range(count)]


def written(op: str, shapes: str, dtype: str, options: dict[str, Any]) -> list[Call]:
    """The calls of a text: "64x4096,4096x4096;1x1024,1024x8", tensors by "," and calls by ";"."""
    function = _function(op)
    if not isinstance(getattr(torch, dtype, None), torch.dtype):
        raise ArgumentError("no such dtype", got=dtype, allowed="float32, float16, bfloat16, …")
    names = [a.name for a in function.arguments if a.name not in function.tensors]
    for name in options:
        if name not in names:
            allowed = ", ".join(names) or "none"
            raise ArgumentError(f"weft.ops.{op} has no such option", got=name, allowed=allowed)
    required = sum(
        a.name in function.tensors and not a.has_default_value() for a in function.arguments
    )
    calls = []
    for text in filter(None, (part.strip() for part in shapes.split(";"))):
        tensors = tuple(_tensor(op, one.strip(), dtype) for one in text.split(","))
        if not required <= len(tensors) <= len(function.tensors):
            raise ArgumentError(
                f"weft.ops.{op} takes another number of tensors",
                got=text,
                allowed=f"shapes of {', '.join(function.tensors)}, separated by ','",
            )
        calls.append(Call(op, tensors, options))
    return calls


def _tensor(op: str, text: str, dtype: str) -> Tensor:
    sizes = text.split("x")
    if not all(size.isdecimal() for size in sizes):
        raise ArgumentError(
            f"a shape for weft.ops.{op} cannot be read", got=repr(text), allowed="e.g. 64x4096"
        )
    shape = tuple(map(int, sizes))
    return Tensor(shape, dtype, tuple(range(len(shape))))
