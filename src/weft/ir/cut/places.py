"""The choice of cuts: few enclosing loops, few branches across, few live variables."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, pairwise

from weft.ir.cut.read import FunctionCode, IrBlock


def place_cuts(code: FunctionCode, part: int) -> list[list[IrBlock]]:
    """The blocks of each part; a part has about `part` lines."""
    costs = _costs(code)
    starts = [0]
    best, size = 0, 0
    for i, block in enumerate(code.blocks):
        if size > part // 2 and not code.joined[i] and (not best or costs[i] <= costs[best]):
            best = i
        size += block.lines
        if best and size > part * 3 // 2:
            starts.append(best)
            size = sum(x.lines for x in code.blocks[best : i + 1])
            best = 0
    return _with_ways(code, starts)


def _costs(code: FunctionCode) -> list[tuple[int, int, int]]:
    """The cost of a cut before each block: loops around it, branches across, variables to copy."""
    place = {block.label: i for i, block in enumerate(code.blocks)}
    back: dict[int, int] = {}
    """The last branch back to a block."""
    forward: dict[int, int] = {}
    """The first branch forward to a block."""
    for i, block in enumerate(code.blocks):
        for target in map(place.__getitem__, block.targets):
            if target <= i:
                back[target] = i
            else:
                forward.setdefault(target, i)
    loops = _counts(len(code.blocks), back.items())
    branches = _counts(len(code.blocks), ((start, end) for end, start in forward.items()))
    live = [block.live.bit_count() for block in code.blocks]
    return list(zip(loops, branches, live, strict=True))


def _counts(blocks: int, ranges: Iterable[tuple[int, int]]) -> list[int]:
    """For each block, the number of ranges (first block, last block) that a cut there splits."""
    steps = [0] * (blocks + 1)
    for first, last in ranges:
        steps[first + 1] += 1
        steps[last + 1] -= 1
    return list(accumulate(steps[:-1]))


def _with_ways(code: FunctionCode, starts: list[int]) -> list[list[IrBlock]]:
    """The parts, in which blocks that only lead to another part belong to that part."""
    part_of: dict[str, int] = {}
    for number, (start, end) in enumerate(pairwise([*starts, len(code.blocks)])):
        for block in code.blocks[start:end]:
            part_of[block.label] = number
    for block in code.blocks:
        if block.local and len(block.targets) == 1:
            part_of[block.label] = part_of[block.targets[0]]
    parts: list[list[IrBlock]] = [[] for _ in starts]
    for block in code.blocks:
        parts[part_of[block.label]].append(block)
    return [x for x in parts if x]
