"""The plan of a group for tensors of given layouts: copies, block sizes, vectors."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.fx import Node

from weft import kernels
from weft.errors import ArgumentError
from weft.kernels import Kernel, cdiv
from weft.ops.core import source
from weft.ops.core.layouts import broadcast, divisor, memory_order, merged
from weft.ops.core.plan import Argument, Buffer, Layout, Plan, Pointer, Step, Word, layout
from weft.ops.families.elementwise.pointwise import INT32_INDICES
from weft.ops.fuse import elements, model, rows
from weft.ops.fuse.elements import ElementAccess
from weft.ops.fuse.group import FusionGroup, dtype_of, shape_of
from weft.ops.fuse.masks import mask_of


@dataclass(frozen=True)
class Launch:
    """The plan of a group, and the text of its kernel.

    dense  the arguments that must be made contiguous, in the shape of the space, before
    """

    plan: Plan
    source: str
    dense: tuple[int, ...]


def launch(group: FusionGroup, tensors: Sequence[torch.Tensor], recorded: bool) -> Launch:
    """The launch for these arguments.

    recorded  tensors with the starts of the group's masks follow the arguments
    """
    addresses = [t.data_ptr() % model.VECTOR_BYTES for t in tensors]
    return launch_of(group, [layout(t) for t in tensors], addresses, recorded)


def launch_of(
    group: FusionGroup, layouts: Sequence[Layout], addresses: Sequence[int], recorded: bool = False
) -> Launch:
    """The launch for arguments of these layouts.

    addresses  those of the arguments, modulo `model.VECTOR_BYTES`
    """
    if group.k:
        return _by_rows(group, layouts, recorded)
    return _elementwise(group, layouts, addresses, recorded)


@functools.lru_cache(source.REMEMBERED)
def _kernel(text: str, name: str) -> Kernel:
    return kernels.cuda(text, include=[source.HOME / "fuse" / "cuda"]).kernel(name)


def _widest(group: FusionGroup, layouts: Sequence[Layout]) -> int:
    """Bytes of the widest type."""
    sizes = [x.itemsize for x in layouts] + [dtype_of(n).itemsize for n in group.results]
    return int(max(sizes))


def _wide(group: FusionGroup, layouts: Sequence[Layout]) -> int:
    """Elements of the widest vector."""
    return model.VECTOR_BYTES // _widest(group, layouts)


# ---- elementwise -------------------------------------------------------------------------------
def _elementwise(
    group: FusionGroup, layouts: Sequence[Layout], addresses: Sequence[int], recorded: bool
) -> Launch:
    """addresses  those of the arguments, modulo `model.VECTOR_BYTES`"""
    outputs = _outputs(group)
    order = sorted(range(len(group.space)), key=lambda d: -outputs[0].steps[d])
    sizes = [group.space[d] for d in order]
    dense = [math.prod(sizes[d + 1 :]) for d in range(len(sizes))]
    read = [*layouts, *map(_of_mask, group.masks)]
    strides = [[broadcast(x, group.space)[d] for d in order] for x in read]
    walk = merged(sizes, [dense, *strides])
    n, steps = math.prod(sizes), walk.strides[1 : 1 + len(layouts)]
    of_masks = walk.strides[1 + len(layouts) :]
    pointers = _pointers(group, len(layouts), recorded)
    linear = all(s[0] in (0, 1) for s in steps) and all(s[0] == 1 for s in of_masks)
    vector = _wide(group, layouts)
    if len(walk.sizes) == 1 and linear:
        accesses = [
            ElementAccess(
                single=not s[0], behind=a % (vector * x.itemsize) // x.itemsize if s[0] else 0
            )
            for x, s, a in zip(layouts, steps, addresses, strict=True)
        ]
        unrolled = model.FLAT_VECTORS
        text = elements.flat(group, accesses, vector, unrolled)
        args: tuple[Argument, ...] = (*pointers, n)
    else:
        while walk.sizes[-1] % vector:
            vector //= 2
        accesses = [_access(x, s, vector) for x, s in zip(layouts, steps, strict=True)]
        whole = [s[-1] == 1 and not any(t % 4 for t in s[:-1]) for s in of_masks]
        reach = max(
            (sum(z * t for z, t in zip(walk.sizes, s, strict=True)) for s in walk.strides),
            default=0,
        )
        index, bits = ("int", 32) if max(n, reach) < INT32_INDICES // 2 else ("long long", 64)
        rank, unrolled = (
            len(walk.sizes),
            max(1, model.IN_FLIGHT // (vector * _widest(group, layouts))),
        )
        text = elements.strided(group, accesses, whole, vector, unrolled, rank, index)
        divisors = [v for z in walk.sizes[1:] for v in (z, *_signed(divisor(z, bits), bits))]
        args = (*pointers, n, *divisors, *(t for s in walk.strides[1:] for t in s))
    grid = cdiv(n, model.BLOCK * vector * unrolled)
    step = Step(_kernel(text, "fused"), (grid,), (model.BLOCK,), args, early=True)
    return Launch(Plan((step,), tuple(outputs)), text, ())


def _of_mask(node: Node) -> Layout:
    """A mask as a contiguous tensor: its elements are numbered in this order."""
    shape = shape_of(node)
    return Layout(dtype_of(node), shape, Buffer(shape, dtype_of(node)).steps, model.VECTOR_BYTES)


def _pointers(group: FusionGroup, count: int, recorded: bool) -> list[Argument]:
    """The arguments for operands, results and masks of a group with so many operands."""
    masks = [mask_of(n) for n in group.masks]
    outputs = count + (len(masks) if recorded else 0)
    found: list[Argument] = [
        *map(Pointer, range(count)),
        *(Pointer(outputs + i) for i in range(len(group.results))),
    ]
    for i, mask in enumerate(masks):
        state = Pointer(count + i) if recorded else None
        found += [state, Word(2 * i), Word(2 * i + 1), *mask.numbers]
    return found


def _signed(magic: tuple[int, int], bits: int) -> tuple[int, int]:
    """The multiplier as a signed number of the same bits."""
    value, shift = magic
    return (value - (1 << bits) if value >> (bits - 1) else value), shift


def _access(x: Layout, steps: Sequence[int], vector: int) -> ElementAccess:
    if steps[-1] == 0:
        return ElementAccess(single=True)
    whole = x.aligned % (vector * x.itemsize) == 0 and all(s % vector == 0 for s in steps[:-1])
    return ElementAccess(apart=steps[-1] != 1 or not whole)


def _outputs(group: FusionGroup) -> list[Buffer]:
    """Results in torch's memory order, if it is the same for all of them and has no gaps."""
    values = [n.meta["val"] for n in group.results]
    orders = {memory_order(Layout(v.dtype, tuple(v.shape), tuple(v.stride()), 16)) for v in values}
    order = orders.pop() if len(orders) == 1 else None
    steps = tuple(values[0].stride()) if order is not None else None
    return [Buffer(shape_of(n), dtype_of(n), strides=steps) for n in group.results]


# ---- rows --------------------------------------------------------------------------------------
def _by_rows(group: FusionGroup, layouts: Sequence[Layout], recorded: bool) -> Launch:
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
    modes = [rows.PER_ROW if not s[1] else rows.REGISTERS if s[0] else rows.STREAMED for s in steps]
    chunks = group.n // vector
    threads, vectors = _threads(chunks, max(1, modes.count(rows.REGISTERS)))
    text = rows.rows(group, modes, vector, vectors)
    block = 128 if threads <= 32 else threads  # more than a warp for a row: a block of its own
    grid = cdiv(group.rows, block // threads)
    if max(group.n, grid) >= INT32_INDICES:
        raise ArgumentError(
            "weft.fuse: a reduction has too many elements",
            got=f"{group.rows:,} rows of {group.n:,} elements",
            allowed="less than 2^31 of each",
        )
    outputs = [Buffer(shape_of(n), dtype_of(n)) for n in group.results]
    args = (*_pointers(group, len(layouts), recorded), group.rows, group.n, *(s[0] for s in steps))
    exact = str(vectors * threads == chunks).lower()
    kernel = _kernel(text, f"fused<{threads}, {exact}>")
    step = Step(kernel, (grid,), (block,), args, early=True)
    return Launch(Plan((step,), tuple(outputs)), text, tuple(copied))


def _row_steps(x: Layout, group: FusionGroup, split: int) -> tuple[int, int] | None:
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
    most = max(1, model.ROW_VECTORS // operands // 2)
    threads = 1
    while threads * min(4, most) < chunks and threads < 32:
        threads *= 2
    while threads * most < chunks and threads < model.ROW_BLOCK:
        threads *= 2
    each = cdiv(chunks, threads)
    if each > 2 * most:
        return model.ROW_BLOCK, 0
    vectors = 1
    while vectors < each:
        vectors *= 2
    return threads, vectors
