"""Finds the pieces of a kernel that the assembler schedules as one: bodies of inner loops, and the
parts between branches.

Short branches inside of a loop become predicates. Loops that store nothing are unrolled, so that
the loads of several rounds overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from weft.measure.profile.latency import WRITES, branch_target, parts
from weft.measure.profile.work import copy_step, joins_block, waits_at_barrier
from weft.values.profile import Instruction, Profile

UNROLLED = 4
"""Rounds of a loop that the assembler joins."""
SHORT = 64
"""Instructions of the longest loop that it unrolls."""
MOST = 0.5
"""The part of a loop's rounds in which code runs that is scheduled with the loop."""


@dataclass(frozen=True)
class Piece:
    """Code that is scheduled as one.

    rounds  of a loop are joined; 0 if the code is not an inner loop
    once    it lies outside of all loops, so that a warp runs it at most once
    """

    code: Sequence[Instruction]
    rounds: int
    once: bool = False


def pieces(p: Profile) -> Iterator[Piece]:
    """The pieces of the code that ran, in order."""
    labels = {text.strip()[:-1]: line for line, text in p.ptx if text.strip().endswith(":")}
    ran = list(parts(p.instructions))
    starts = {_head(ran, n, labels): n for n in range(len(ran))}
    loops = _loops(p, labels)

    def plain(part: Sequence[Instruction]) -> Piece:
        line = part[0].ptx_line
        return Piece(part, 0, not any(first <= line <= last for first, last in loops))

    n = 0
    while n < len(ran):
        end = starts.get(n)
        if end is None:
            yield plain(ran[n])
            n += 1
            continue
        count = ran[end][-1].executions
        inside = [part for part in ran[n : end + 1] if part[0].executions >= MOST * count]
        code = [i for part in inside for i in part]
        yield Piece(code, UNROLLED if _unrolls(code) else 1)
        yield from (plain(part) for part in ran[n : end + 1] if part not in inside)
        n = end + 1


def _loops(p: Profile, labels: dict[str, int]) -> list[tuple[int, int]]:
    """The first and the last line of each loop: a branch goes back to its first."""
    ends = [(labels.get(branch_target(i.text), 0), i.ptx_line) for i in p.instructions]
    return [(first, last) for first, last in ends if 0 < first <= last]


def _head(ran: Sequence[Sequence[Instruction]], n: int, labels: dict[str, int]) -> int | None:
    """The first part of an inner loop that ends with part `n`; None if it ends none."""
    line = labels.get(branch_target(ran[n][-1].text), 0)
    if not line or line > ran[n][0].ptx_line + len(ran[n]):
        return None
    head = next((k for k in range(n + 1) if ran[k][0].ptx_line >= line), n)
    # An inner loop has no other branch back inside.
    for k in range(head, n):
        back = labels.get(branch_target(ran[k][-1].text), 0)
        if back and back <= ran[k][0].ptx_line:
            return None
    return head


def _unrolls(code: Sequence[Instruction]) -> bool:
    ordered = any(
        joins_block(i.opcode) or waits_at_barrier(i.opcode) or copy_step(i.opcode) is not None
        for i in code
    )
    stores = any(a.kind in WRITES for i in code for a in i.accesses)
    return len(code) <= SHORT and not ordered and not stores
