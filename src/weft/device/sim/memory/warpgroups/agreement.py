"""The four warps of a warpgroup make a product together: each of theirs must be the same."""

from __future__ import annotations

from weft.ir import Builder, Val

GROUP = 4
"""Warps of a warpgroup."""


class Agreement:
    """The last products of a warpgroup, with which those of its four warps are compared."""

    COUNTS, GROUPS, LANDED, COMMITTED, ENTRIES = 0, 16, 32, 64, 192
    """Numbers of each of its warps: products that it has issued, groups that it has committed,
    products that are complete under a schedule, and products that it had issued at the end of each
    of the last `KEPT` groups; entries follow."""
    NUMBER, INSTRUCTION, LEFT, RIGHT, ENTRY = 0, 4, 8, 16, 32
    KEPT = 8
    SIZE = ENTRIES + KEPT * ENTRY


def agree(b: Builder, args: list[Val]) -> Val:
    """(entries of all groups, warp, instruction, descriptors) -> true if no other warp differs."""
    groups, warp, index, left, right = args
    group = b.at(groups, (warp >> 2).zext("i64") * Agreement.SIZE)
    count = b.at(group, ((warp & (GROUP - 1)) << 2).zext("i64"))
    number = b.load("i32", 0, count) + 1
    b.store(number, count)
    place = (number & (Agreement.KEPT - 1)).zext("i64") * Agreement.ENTRY + Agreement.ENTRIES
    entry = b.at(group, place)
    fields = {
        Agreement.NUMBER: number,
        Agreement.INSTRUCTION: index,
        Agreement.LEFT: left,
        Agreement.RIGHT: right,
    }
    # Entries are numbered from 1. The first warp of the four fills in an entry; a warp that is far
    # behind finds a later one, which says nothing.
    known = b.load("i32", 0, entry)
    with b.when((known - number).slt(0)):
        for at, v in fields.items():
            b.store(v, b.at(entry, at))
    same = b.integer("i1", 1)
    for at, v in fields.items():
        same = same & b.load(v.element, 0, b.at(entry, at)).eq(v)
    return same | (known - number).sgt(0)
