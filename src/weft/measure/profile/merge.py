"""Merges the profiles of launches with the same kernel and shape; counters are summed."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from weft.measure.profile import aggregate
from weft.values.profile import Access, Array, Instruction, Profile

P = TypeVar("P", bound=Profile)


def key(p: Profile) -> tuple[object, ...]:
    """The key of a launch; launches with equal keys are merged."""
    s = p.launch
    return s.kernel, s.grid, s.block, s.static_shared, s.dynamic_shared, p.gpu, p.ptx


def add(a: P, b: P) -> P:
    """The sum of both; addresses and sources are those of the first."""
    assert key(a) == key(b)
    pairs = zip(a.instructions, b.instructions, strict=True)
    instructions = tuple(_instruction(x, y) for x, y in pairs)
    # A launch has only the counters of features that it uses.
    names = [*a.totals, *(name for name in b.totals if name not in a.totals)]
    return replace(
        a,
        instructions=instructions,
        lines=aggregate.lines(instructions),
        arrays=_arrays(a.arrays, b.arrays),
        totals={name: a.totals.get(name, 0) + b.totals.get(name, 0) for name in names},
        modelled=a.modelled | b.modelled,
        launches=a.launches + b.launches,
    )


def _instruction(a: Instruction, b: Instruction) -> Instruction:
    merged: dict[tuple[str, str], Access] = {(x.space, x.kind): x for x in a.accesses}
    for x in b.accesses:
        place = x.space, x.kind
        merged[place] = merged[place] + x if place in merged else x
    return replace(
        a,
        executions=a.executions + b.executions,
        threads=a.threads + b.threads,
        threads_on=a.threads_on + b.threads_on,
        diverged=a.diverged + b.diverged,
        waits=a.waits + b.waits,
        polls=a.polls + b.polls,
        accesses=tuple(merged.values()),
    )


def _arrays(a: tuple[Array, ...], b: tuple[Array, ...]) -> tuple[Array, ...]:
    """Sum compulsory bytes: each launch must move its bytes again."""
    out = {x.name: x for x in a}
    for x in b:
        seen = out.get(x.name)
        out[x.name] = x if seen is None else replace(
            seen, read=seen.read + x.read, written=seen.written + x.written,
            touched=max(seen.touched, x.touched), nbytes=max(seen.nbytes, x.nbytes),
        )  # fmt: skip
    return tuple(out.values())
