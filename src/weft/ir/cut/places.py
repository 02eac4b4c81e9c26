"""Where a function is cut: in few loops, where few variables are live."""

from __future__ import annotations

from itertools import accumulate, pairwise

from weft.ir.cut.read import Block, Code


def place_cuts(code: Code, part: int) -> list[list[Block]]:
    """The blocks of each part; a part has about `part` lines."""
    depths = _loops(code)
    costs = [
        (depth, block.live.bit_count()) for depth, block in zip(depths, code.blocks, strict=True)
    ]
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


def _loops(code: Code) -> list[int]:
    """For each block, how many loops a cut before it would be in."""
    place = {block.label: i for i, block in enumerate(code.blocks)}
    ends: dict[int, int] = {}
    for i, block in enumerate(code.blocks):
        for target in block.targets:
            if place[target] <= i:
                ends[place[target]] = i
    steps = [0] * (len(code.blocks) + 1)
    for start, end in ends.items():
        steps[start + 1] += 1
        steps[end + 1] -= 1
    return list(accumulate(steps[:-1]))


def _with_ways(code: Code, starts: list[int]) -> list[list[Block]]:
    """The parts, in which blocks that only lead to another part belong to that part."""
    part_of: dict[str, int] = {}
    for number, (start, end) in enumerate(pairwise([*starts, len(code.blocks)])):
        for block in code.blocks[start:end]:
            part_of[block.label] = number
    for block in code.blocks:
        if block.local and len(block.targets) == 1:
            part_of[block.label] = part_of[block.targets[0]]
    parts: list[list[Block]] = [[] for _ in starts]
    for block in code.blocks:
        parts[part_of[block.label]].append(block)
    return [x for x in parts if x]
