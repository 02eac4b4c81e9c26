"""Guards turned into branches, for instructions that end or leave a block of code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from weft.ptx.model import Instruction, Label, PtxFunction, Sym

Body = list[Instruction | Label]


def branch_around(
    body: Sequence[Instruction | Label], hit: Callable[[Instruction], bool], prefix: str
) -> Body:
    """`@p x` becomes `@!p bra past; x; past:` for every guarded x that `hit` names."""
    out: Body = []
    for item in body:
        if isinstance(item, Label) or item.guard is None or not hit(item):
            out.append(item)
            continue
        # The prefix ends in a colon, which no PTX identifier has, so the name is new.
        past = Label(f"{prefix}{len(out)}")
        jump = replace(
            item,
            opcode="bra",
            parts=("bra",),
            operands=(Sym(past.name),),
            guard_negated=not item.guard_negated,
        )
        out += [jump, replace(item, guard=None, guard_negated=False), past]
    return out


def normalise(function: PtxFunction, hit: Callable[[Instruction], bool]) -> PtxFunction:
    """`function` with `branch_around` applied; itself when nothing in it is guarded so."""
    if not any(not isinstance(x, Label) and x.guard and hit(x) for x in function.body):
        return function
    return replace(function, body=branch_around(function.body, hit, "past:"))
