"""Changes the accesses of a profile as the assembler does, which makes fewer of some.

lanes    where all threads of a block do an integer operation at one address, a warp adds up its
         lanes first, and one of them does the operation
stores   a thread's stores to bytes that follow each other reach L2 together
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from weft.measure.profile.prediction.uniform import at_one_address, same_registers, with_one_value
from weft.measure.profile.work import is_atomic, operation
from weft.values.profile import Access, Instruction, Profile

SECTOR = 32
_SUM = "add"
_MERGED = frozenset(("add", "min", "max", "and", "or", "xor"))
_INTEGERS = frozenset(("u32", "s32", "b32"))
_PLACE = re.compile(r"\[(%[\w$]+)(?:\+(-?\d+))?\]")


def assembled(p: Profile) -> Profile:
    """The profile with the accesses that are left."""
    same = same_registers(p) if any(map(_mergeable, p.instructions)) else frozenset[str]()
    code = [
        _with(i, [_one_lane(a) for a in i.accesses]) if _merges(i, same) else i
        for i in p.instructions
    ]
    return replace(p, instructions=tuple(_joined(code)))


def _with(i: Instruction, accesses: Sequence[Access]) -> Instruction:
    return replace(i, accesses=tuple(accesses))


def _mergeable(i: Instruction) -> bool:
    if not i.accesses or not is_atomic(i.opcode):
        return False
    name, kind = operation(i.opcode)
    return kind in _INTEGERS and name in _MERGED


def _merges(i: Instruction, same: frozenset[str]) -> bool:
    """True for an operation at one address of which each lane can compute its own result."""
    if not _mergeable(i) or not at_one_address(i, same):
        return False
    if all(a.kind == "reduction" for a in i.accesses):
        return True
    return operation(i.opcode)[0] == _SUM and with_one_value(i, same)


def _one_lane(a: Access) -> Access:
    """The same requests, of one lane each."""
    n, far = a.requests, a.requests if a.space == "global" else 0
    return Access(
        space=a.space,
        kind=a.kind,
        requests=n,
        threads=n,
        bytes=a.bytes * n // max(1, a.threads),
        sectors=far,
        sectors_ideal=far,
        sectors_missed=far,
        tags=far,
        tag_wavefronts=far,
        wavefronts=n - far,
        wavefronts_ideal=n - far,
    )


def _joined(code: Sequence[Instruction]) -> Iterator[Instruction]:
    """The code; of a run of stores to one sector of each lane only the first has sectors for L2."""
    stored = set[tuple[str, int]]()
    for i in code:
        place = _place(i)
        if place is None:
            stored.clear()
            yield i
        elif place in stored:
            yield _with(i, [replace(a, sectors=0, sectors_missed=0) for a in i.accesses])
        else:
            stored.add(place)
            yield i


def _place(i: Instruction) -> tuple[str, int] | None:
    """The address of a store to global memory, in sectors after a register."""
    if not i.accesses or [(a.space, a.kind) for a in i.accesses] != [("global", "store")]:
        return None
    found = _PLACE.search(i.text)
    return None if found is None else (found[1], int(found[2] or 0) // SECTOR)
