"""Merge kernels with those that read their results, where an operation has operands of several.

An operation joins the kernel of its last operand. The kernels of its other operands would write
them to memory for it; here they become parts of its kernel.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from torch.fx import Node

from weft.ops.fuse.group import FusionGroup, Other, Step, shape_of
from weft.torch_backend.operands import order_of, read_by, size_of

MOST_OPERANDS = 24
"""Tensors of one kernel: more would leave a thread too few registers."""
NEAR = 24
"""Steps over which the operands of a kernel may stay in memory instead of its results."""


def merge(steps: Sequence[Step]) -> list[Step]:
    """The steps with each kernel of elements in the first kernel that reads its results."""
    merged: list[Step | None] = list(steps)
    readers = _readers(steps)
    for number in reversed(range(len(steps))):
        group = merged[number]
        if not isinstance(group, FusionGroup) or group.k:
            continue
        first = min((r for n in group.results for r in readers[n]), default=number)
        reader = merged[first]
        if first == number or not isinstance(reader, FusionGroup):
            continue
        left = [n for n in group.results if any(r != first for r in readers[n]) or _is_output(n)]
        if _fits(group, reader, left) and _may_wait(group, steps[number + 1 : first], left):
            _join(group, reader, left)
            for n in read_by(group):
                readers[n] = [first if r == number else r for r in readers[n]]
            merged[number] = None
    return [s for s in merged if s is not None]


def _readers(steps: Sequence[Step]) -> dict[Node, list[int]]:
    """The numbers of the steps that read each value."""
    found: dict[Node, list[int]] = defaultdict(list)
    for number, step in enumerate(steps):
        for node in read_by(step):
            found[node].append(number)
    return found


def _is_output(node: Node) -> bool:
    return any(u.op == "output" for u in node.users)


def _fits(group: FusionGroup, reader: FusionGroup, left: Sequence[Node]) -> bool:
    """True if one kernel can compute both, with the same number of elements for each."""
    if group.space != reader.space or order_of(group) != order_of(reader):
        return False
    if not all(map(group.full, group.results)):
        return False
    if reader.k and not all(_is_row(n) for n in group.arguments):
        return False  # it would be copied first
    if reader.k and any(shape_of(n) != group.space for n in group.masks):
        return False  # the elements of such a mask are numbered in another way
    operands = {*group.arguments, *reader.arguments} - set(group.results)
    return len(operands) + len(left) + len(reader.results) <= MOST_OPERANDS


def _is_row(node: Node) -> bool:
    return bool(node.meta["val"].is_contiguous())


def _may_wait(group: FusionGroup, between: Sequence[Step], left: Sequence[Node]) -> bool:
    """True if a kernel may run after these steps: its operands do not change, nor hold memory."""
    if any(isinstance(s, Other) and _writes(s.node) for s in between):
        return False
    held = sum(map(size_of, group.arguments))
    saved = sum(size_of(n) for n in group.results if n not in left)
    return held <= saved or len(between) <= NEAR


def _writes(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and bool(schema.is_mutable)


def _join(group: FusionGroup, reader: FusionGroup, left: Sequence[Node]) -> None:
    """Add a kernel's operations to the one that reads its results; `left`: others read these."""
    reader.nodes = list(dict.fromkeys([*group.nodes, *reader.nodes]))
    reader.results = [*left, *reader.results]
