"""Makes the plan of a group for tensors of given layouts: copies, block sizes, vectors."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from weft import kernels
from weft.errors import ArgumentError
from weft.kernels import Kernel, cdiv
from weft.ops import source
from weft.ops.fusion import code, rows
from weft.ops.fusion.groups import Group, dtype_of, shape_of
from weft.ops.layouts import broadcast, divisor, memory_order, merged
from weft.ops.plan import Argument, Buffer, Layout, Plan, Pointer, Step
from weft.ops.pointwise import NARROW

MOST_HELD = 16
"""Vectors, of all operands together, that a thread keeps in registers."""
LARGEST = 1024
"""Threads of a block at the most."""


@dataclass(frozen=True)
class Launch:
    """The plan of a group, and the text of its kernel.

    dense  the arguments that must be made contiguous, in the shape of the space, before
    """

    plan: Plan
    source: str
    dense: tuple[int, ...]


def launch(group: Group, layouts: Sequence[Layout]) -> Launch:
    """The launch for arguments of these layouts."""
    return _by_rows(group, layouts) if group.k else _elementwise(group, layouts)


@functools.cache
def _kernel(text: str, name: str) -> Kernel:
    return kernels.cuda(text, include=[source.HOME]).kernel(name)


def _wide(group: Group, layouts: Sequence[Layout]) -> int:
    """Elements of a vector: 16 bytes of the widest type."""
    sizes = [x.itemsize for x in layouts] + [dtype_of(n).itemsize for n in group.results]
    return 16 // int(max(sizes))


# ---- elementwise -------------------------------------------------------------------------------
def _elementwise(group: Group, layouts: Sequence[Layout]) -> Launch:
    outputs = _outputs(group)
    order = sorted(range(len(group.space)), key=lambda d: -outputs[0].steps[d])
    sizes = [group.space[d] for d in order]
    dense = [math.prod(sizes[d + 1 :]) for d in range(len(sizes))]
    strides = [[broadcast(x, group.space)[d] for d in order] for x in layouts]
    walk = merged(sizes, [dense, *strides])
    n, steps = math.prod(sizes), walk.strides[1:]
    first = len(layouts)
    pointers: list[Argument] = [Pointer(i) for i in range(first + len(outputs))]
    if len(walk.sizes) == 1 and all(s[0] in (0, 1) for s in steps):
        vector = _aligned(_wide(group, layouts), layouts, steps)
        modes = [code.WHOLE if s[0] else code.REPEATED for s in steps]
        text = code.flat(group, modes, vector)
        args: tuple[Argument, ...] = (*pointers, n)
    else:
        vector = _wide(group, layouts)
        while walk.sizes[-1] % vector:
            vector //= 2
        modes = [_mode(x, s, vector) for x, s in zip(layouts, steps, strict=True)]
        reach = max(
            (sum(z * t for z, t in zip(walk.sizes, s, strict=True)) for s in steps), default=0
        )
        index, bits = ("int", 32) if max(n, reach) < NARROW // 2 else ("long long", 64)
        rank = len(walk.sizes)
        text = code.strided(group, modes, vector, rank, index)
        divisors = [v for z in walk.sizes[1:] for v in (z, *_signed(divisor(z, bits), bits))]
        args = (*pointers, n, *divisors, *(t for s in steps for t in s))
    grid = cdiv(n, code.BLOCK * vector)
    step = Step(_kernel(text, "fused"), (grid,), (code.BLOCK,), args)
    return Launch(Plan((step,), tuple(outputs)), text, ())


def _signed(magic: tuple[int, int], bits: int) -> tuple[int, int]:
    """The multiplier as a signed number of the same bits."""
    value, shift = magic
    return (value - (1 << bits) if value >> (bits - 1) else value), shift


def _aligned(wide: int, layouts: Sequence[Layout], steps: Sequence[Sequence[int]]) -> int:
    while wide > 1 and any(
        s[-1] and x.aligned % (wide * x.itemsize) for x, s in zip(layouts, steps, strict=True)
    ):
        wide //= 2
    return wide


def _mode(x: Layout, steps: Sequence[int], vector: int) -> str:
    if steps[-1] == 0:
        return code.REPEATED
    whole = x.aligned % (vector * x.itemsize) == 0 and all(s % vector == 0 for s in steps[:-1])
    return code.WHOLE if steps[-1] == 1 and whole else code.EACH


def _outputs(group: Group) -> list[Buffer]:
    """Results in torch's memory order, if it is the same for all of them and has no gaps."""
    values = [n.meta["val"] for n in group.results]
    orders = {memory_order(Layout(v.dtype, tuple(v.shape), tuple(v.stride()), 16)) for v in values}
    order = orders.pop() if len(orders) == 1 else None
    steps = tuple(values[0].stride()) if order is not None else None
    return [Buffer(shape_of(n), dtype_of(n), strides=steps) for n in group.results]


# ---- rows --------------------------------------------------------------------------------------
def _by_rows(group: Group, layouts: Sequence[Layout]) -> Launch:
    split = len(group.space) - group.k
    copied, steps = [], []
    for i, x in enumerate(layouts):
        found = _row_steps(x, group, split)
        if found is None:
            copied.append(i)
            found = (group.n, 1)
        steps.append(found)
    vector = _wide(group, layouts)
    while vector > 1 and (
        group.n % vector
        or any(
            s[1] and (s[0] % vector or (i not in copied and x.aligned % (vector * x.itemsize)))
            for i, (x, s) in enumerate(zip(layouts, steps, strict=True))
        )
    ):
        vector //= 2
    modes = [rows.PER_ROW if not s[1] else rows.HELD if s[0] else rows.STREAMED for s in steps]
    chunks = group.n // vector
    threads, held = _threads(chunks, max(1, modes.count(rows.HELD)))
    text = rows.rows(group, modes, vector, held)
    block = max(128, threads)
    grid = cdiv(group.rows, block // threads)
    if max(group.n, grid) >= NARROW:
        raise ArgumentError(
            "weft.fuse: a reduction has too many elements",
            got=f"{group.rows:,} rows of {group.n:,} elements", allowed="less than 2^31 of each",
        )  # fmt: skip
    outputs = [Buffer(shape_of(n), dtype_of(n)) for n in group.results]
    pointers: list[Argument] = [Pointer(i) for i in range(len(layouts) + len(outputs))]
    args = (*pointers, group.rows, group.n, *(s[0] for s in steps))
    step = Step(_kernel(text, f"fused<{threads}>"), (grid,), (block,), args)
    return Launch(Plan((step,), tuple(outputs)), text, tuple(copied))


def _row_steps(x: Layout, group: Group, split: int) -> tuple[int, int] | None:
    """The strides from row to row and along a row; None if they are not single numbers."""
    strides = broadcast(x, group.space)
    found = []
    for part in (slice(0, split), slice(split, None)):
        walk = merged(group.space[part], [strides[part]])
        if len(walk.sizes) > 1:
            return None
        found.append(walk.strides[0][0])
    between, along = found
    return (between, along) if along in (0, 1) else None


def _threads(chunks: int, operands: int) -> tuple[int, int]:
    """(threads per row, vectors of an operand that each keeps in registers; 0: it keeps none)."""
    most = max(1, MOST_HELD // operands // 2)
    threads = 1
    while threads * min(4, most) < chunks and threads < 32:
        threads *= 2
    while threads * most < chunks and threads < LARGEST:
        threads *= 2
    each = cdiv(chunks, threads)
    if each > 2 * most:
        return LARGEST, 0
    held = 1
    while held < each:
        held *= 2
    return threads, held
