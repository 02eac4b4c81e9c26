"""Describes elementwise expressions (`Job`), and models how their operands load memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from weft.ops.core import source
from weft.ops.core.layouts import dense, merged
from weft.ops.core.plan import Argument, Pointer, Step

OPERANDS = 3
"""The number of operands of the kernels; missing ones repeat the first."""
LINEAR, ROW, SAME, EACH, TURNED, SHIFTED = range(6)
"""Access modes of an operand; see cuda/elementwise.cu."""

# ---- the model; rates were estimated from the H200's figures ----------------------------------
IN_FLIGHT = 32
"""Bytes of an operand that a thread of `strided` has in flight."""
SMALL = 16384
"""Bytes of an operand that stay in L1 while the others stream through."""
SECTOR = 32
LINE = 128
"""Bytes of an L1 cache line."""
WORD = 4
STREAMS = 400
"""Lines of an operand that blocks read in turns and that stay in L1."""
SCATTERED = 1.2
"""The time of elements that are neighbours of others in the block, relative to a vector."""
NEAR = 0.65
"""The time of a sector that L2 has, relative to one in memory."""
APART = 0.2
"""The additional time of vectors of elements that are apart, for each doubling from a word on."""
SHORT = 16
"""Innermost sizes up to which each element position is a separate stream."""


class Operand(NamedTuple):
    """A tensor that is read: strides along the output's dimensions, and its address."""

    ctype: str
    itemsize: int
    strides: tuple[int, ...]
    aligned: int
    pointer: Pointer


@dataclass(frozen=True)
class ElementwiseJob:
    """An expression to evaluate for each element.

    sizes    of the output, in the order of its memory: outermost first
    compute  the C++ type of a, b, c, s and t
    out      the C++ type and size of an element of the output, and where it is
    numbers  the values of s and t; bytes for a struct
    """

    expression: str
    compute: str
    sizes: tuple[int, ...]
    operands: tuple[Operand, ...]
    out_ctype: str
    out_itemsize: int
    out: Pointer
    numbers: tuple[float | bytes, ...] = (0, 0)

    def merged(self) -> ElementwiseJob:
        """The same job with the fewest dimensions."""
        plain = dense(self.sizes)
        walk = merged(self.sizes, [plain, *(o.strides for o in self.operands)])
        operands = zip(self.operands, walk.strides[1:], strict=True)
        return replace(
            self, sizes=walk.sizes, operands=tuple(o._replace(strides=s) for o, s in operands)
        )

    @property
    def n(self) -> int:
        return math.prod(self.sizes)

    @property
    def moved(self) -> int:
        """Compulsory bytes: each element read and written once."""
        return self.n * self.out_itemsize + sum(footprint(o, self.sizes) for o in self.operands)

    def kernel(self, name: str, *more: object) -> Callable[..., Step]:
        """Returns a function (grid, block, *arguments) -> the launch of a kernel."""
        three = [*self.operands, *[self.operands[0]] * (OPERANDS - len(self.operands))]
        types = [self.out_ctype, self.compute, *(o.ctype for o in three)]
        made = source.kernel(
            "elementwise/elementwise.cu",
            f"{name}<{', '.join([*types, *map(str, more)])}>",
            EXPRESSION=self.expression,
        )
        pointers: list[Argument] = [*(o.pointer for o in three), self.out, *self.numbers]
        return lambda grid, block, *args: Step(made, (grid,), (block,), (*pointers, *args))


class Strategy(NamedTuple):
    """One strategy for a job; `build` compiles its kernel."""

    name: str
    cost: float
    why: str
    build: Callable[[], Step]


def footprint(operand: Operand, sizes: Sequence[int]) -> int:
    """Bytes of an operand's elements, each counted once."""
    steps = zip(sizes, operand.strides, strict=True)
    return operand.itemsize * math.prod(size for size, stride in steps if stride)


def vectors(job: ElementwiseJob) -> Iterator[int]:
    """Elements per vector, of up to 16 bytes of the widest type."""
    vector = 16 // max(job.out_itemsize, *(o.itemsize for o in job.operands), 1)
    while vector:
        yield vector
        vector //= 2


def traffic(job: ElementwiseJob, modes: Sequence[int], covered: int) -> float:
    """Bytes moved in whole sectors; a block of `covered` elements fetches each of its sectors once.

    Scattered elements fetch a sector each, unless the block has their neighbours in memory as well
    and the L1 cache holds them so long.
    """
    total = float(job.n * job.out_itemsize)
    for operand, mode in zip(job.operands, modes, strict=True):
        bytes_read, step = footprint(operand, job.sizes), operand.strides[-1]
        scattered = mode == EACH and step > 1 and not _streams(operand, job.sizes)
        if scattered and bytes_read > SMALL:
            inside = _inside(operand, job.sizes)
            near = max(1, covered // inside) if inside <= STREAMS else 1
            total += bytes_read * max(
                SCATTERED, NEAR * min(SECTOR // operand.itemsize, step) / near
            )
            continue
        total += bytes_read
    return total


def _inside(operand: Operand, sizes: Sequence[int]) -> int:
    """Elements of the output between two neighbours in an operand's memory."""
    for dim in reversed(range(len(sizes))):
        if operand.strides[dim] == 1:
            return math.prod(sizes[dim + 1 :])
    return math.prod(sizes)


def unrolled(job: ElementwiseJob, vector: int) -> int:
    """How many vectors a thread of `strided` computes."""
    widest = max(job.out_itemsize, *(o.itemsize for o in job.operands))
    return max(1, min(4, IN_FLIGHT // (vector * widest)))


def issued(job: ElementwiseJob, modes: Sequence[int], vector: int) -> float:
    """Issue slots of all threads; L1 lookups count as the slots that they block."""
    count = 6.0 + 6 * len(job.sizes) / vector
    for operand, mode in zip(job.operands, modes, strict=True):
        if mode != EACH:
            count += (24 if mode == SHIFTED else 3) / vector
            continue
        small = footprint(operand, job.sizes) <= SMALL
        if operand.strides[-1] > 1 and not small:  # a line for each lane, unless they meet
            count += 6 + 1.1 * min(32, _inside(operand, job.sizes))
            continue
        lines = 1 if small else max(1, min(32, vector * operand.itemsize * 32 // LINE))
        count += 6 + 4 * lines
    return job.n * count


def apart_cost(job: ElementwiseJob, modes: Sequence[int], vector: int) -> float:
    """The cost of vectors whose elements are far apart in an operand, relative to single elements.

    Lanes that take neighbours reach each part of memory together.
    """
    widest = max(job.out_itemsize, *(o.itemsize for o in job.operands))
    apart = any(
        mode == EACH
        and footprint(o, job.sizes) > SMALL
        and (_short(o, job.sizes, vector) or (o.strides[-1] > 1 and not _streams(o, job.sizes)))
        for o, mode in zip(job.operands, modes, strict=True)
    )
    # Elements that are sectors apart gain nothing from being a word together.
    far = any(
        m == EACH and o.strides[-1] * o.itemsize >= SECTOR and footprint(o, job.sizes) > SMALL
        for o, m in zip(job.operands, modes, strict=True)
    )
    together = vector * widest / (widest if far else WORD)
    return 1 + APART * math.log2(together) if (apart or far) and together > 1 else 1


def _short(operand: Operand, sizes: Sequence[int], vector: int) -> bool:
    """True if a vector has several rows of neighbours, with larger gaps between them."""
    inner = sizes[-1]
    return len(sizes) > 1 and 1 < inner < vector and operand.strides[-2] >= 2 * inner


def _streams(operand: Operand, sizes: Sequence[int]) -> bool:
    """True if each position along the innermost dimension is a row of neighbours in memory."""
    return sizes[-1] <= SHORT and len(sizes) > 1 and operand.strides[-2] in (0, 1)
