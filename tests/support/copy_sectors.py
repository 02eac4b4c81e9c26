"""Copies whose sectors ncu counts on an H200 (scripts/record_copy_sectors.py) and profiles count.

One thread makes one copy. A box has 4-byte elements and `rows` rows of `wide` elements; `at` is
(column, row) of its corner in a tensor of `shape` (rows, columns) with rows `pitch` bytes apart.
A range has `nbytes` bytes from byte `off` of global memory to byte `to` of shared memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import weft

SOURCE = r"""
#include <weft/tma.cuh>
using namespace weft;

__device__ void box(int way, const TensorMap& map, char* data, Barrier& full, int x, int y,
                    int bytes) {
    full.init(1);
    publish_barriers();
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    if (way == 0) {
        full.arrive_expecting(bytes);
        load_box(shared_address(data), map, full, x, y);
        full.wait(0);
        return;
    }
    if (way == 1) store_box(map, shared_address(data), x, y);
    if (way == 2) add_box(map, shared_address(data), x, y);
    commit_stores();
    wait_stores<0>();
}

extern "C" __global__ void boxes(const __grid_constant__ TensorMap map, int way, int x, int y,
                                 int bytes) {
    extern __shared__ __align__(1024) char data[];
    __shared__ Barrier full;
    if (threadIdx.x == 0) box(way, map, data, full, x, y, bytes);
}

extern "C" __global__ void ranges(float* memory, int way, int off, int to, int bytes) {
    extern __shared__ __align__(1024) char data[];
    __shared__ Barrier full;
    char* global = reinterpret_cast<char*>(memory);
    if (threadIdx.x != 0) return;
    full.init(1);
    publish_barriers();
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    unsigned near = shared_address(data + to), bar = shared_address(&full);
    if (way == 0) {
        full.arrive_expecting(bytes);
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
            "[%3];" ::"r"(near), "l"(global + off), "r"(bytes), "r"(bar) : "memory");
        full.wait(0);
        return;
    }
    if (way == 1)
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
            global + off), "r"(near), "r"(bytes) : "memory");
    if (way == 2)
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], %2;"
                     ::"l"(global + off), "r"(near), "r"(bytes) : "memory");
    commit_stores();
    wait_stores<0>();
}
"""
WAYS = ("ld", "st", "red")
ARRIVED = "l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld.sum"
LEFT = "l1tex__m_l1tex2xbar_write_sectors_mem_global_op_tma_{}.sum"
METRICS = (
    ARRIVED, LEFT.format("st"), LEFT.format("red"),
    "lts__t_sectors_srcunit_tex_op_read.sum", "lts__t_sectors_srcunit_tex_op_write.sum",
    "lts__t_sectors_srcunit_tex_op_red.sum",
)  # fmt: skip
BYTES = 1 << 18
"""Bytes of global memory."""


class Box(NamedTuple):
    """A copy of a box of 4-byte elements."""

    way: int
    wide: int
    rows: int
    at: tuple[int, int]
    shape: tuple[int, int]
    pitch: int
    swizzle: int = 0


class Range(NamedTuple):
    """A copy of a range of bytes."""

    way: int
    off: int
    to: int
    nbytes: int


def cases() -> list[Box | Range]:
    """All copies, in the order of the record."""
    return [*_inside(), *_swizzled(), *_edges(), *_ranges(), *_fills()]


def _inside() -> Iterator[Box]:
    """Boxes inside of a tensor: widths, where rows begin, and how far apart they are."""
    whole = (64, 256)
    widths = (4, 8, 12, 16, 20, 24, 32, 36, 48, 64, 128)
    for wide, first in itertools.product(widths, (0, 4, 8, 12, 20)):
        yield Box(0, wide, 4, (first, 8), whole, 1024)
    for wide, first in itertools.product((4, 12, 16, 32, 40, 64), (0, 4, 12)):
        yield Box(1, wide, 4, (first, 8), whole, 1024)
    for wide, pitch in itertools.product((12, 32, 40), (208, 272, 336)):
        yield Box(0, wide, 8, (4, 0), (64, 50), pitch)
        yield Box(1, wide, 8, (4, 0), (64, 50), pitch)
    for wide in (12, 32):
        yield Box(2, wide, 4, (4, 8), whole, 1024)
    for rows in (1, 2, 3, 16):
        yield Box(0, 4, rows, (4, 0), whole, 1024)
        yield Box(0, 20, rows, (4, 0), whole, 1024)


def _swizzled() -> Iterator[Box]:
    for swizzle, wide, first in itertools.product((32, 64, 128), (4, 8, 16, 32), (0, 4, 12)):
        if 4 * wide <= swizzle:
            yield Box(0, wide, 8, (first, 8), (64, 256), 1024, swizzle)
    for swizzle in (32, 64, 128):
        yield Box(1, swizzle // 4, 8, (4, 8), (64, 256), 1024, swizzle)


def _edges() -> Iterator[Box]:
    """Boxes of which a part is outside: on the right, on the left, below, all of it."""
    for swizzle, inside, first in itertools.product((0, 128), (1, 4, 5, 12, 16, 20, 28), (0, 4)):
        yield Box(0, 32, 4, (first, 0), (64, first + inside), 1024, swizzle)
    for inside in (1, 5, 12, 20, 28):
        yield Box(1, 32, 4, (4, 0), (64, 4 + inside), 1024)
    for swizzle, first in itertools.product((0, 128), (-4, -8, -20, -28)):
        yield Box(0, 32, 4, (first, 0), (64, 256), 1024, swizzle)
    for swizzle, row in itertools.product((0, 128), (62, 64, -2, -4)):
        yield Box(0, 32, 4, (0, row), (64, 256), 1024, swizzle)
        yield Box(0, 32, 4, (4, row), (64, 256), 1024, swizzle)
    for inside in (20, 40, 60):
        yield Box(0, 64, 4, (0, 0), (64, inside), 1024)
    yield Box(1, 32, 4, (0, 62), (64, 256), 1024)


def _ranges() -> Iterator[Range]:
    for nbytes, off, to in itertools.product(
        (16, 48, 128, 256, 1200), (0, 16, 48, 112), (0, 16, 64)
    ):
        yield Range(0, off, to, nbytes)
    for nbytes, off, to in itertools.product((48, 128, 1200), (0, 16, 112), (0, 16)):
        yield Range(1, off, to, nbytes)
    yield Range(2, 16, 0, 1200)


def _fills() -> Iterator[Box]:
    """Boxes whose lines begin inside of a sector of shared memory, of which a part is outside."""
    for wide, inside in itertools.product((12, 20, 28, 44), (4, 8, 16)):
        if inside < wide:
            yield Box(0, wide, 4, (0, 0), (64, inside), 1024)
            yield Box(0, wide, 4, (4, 0), (64, 4 + inside), 1024)
        yield Box(0, wide, 4, (-inside, 0), (64, 256), 1024)
    for wide, row in itertools.product((4, 12, 20, 28, 44), (62, 64)):
        yield Box(0, wide, 4, (0, row), (64, 256), 1024)
    for wide, swizzle in ((4, 32), (12, 64), (20, 128), (28, 128)):
        yield Box(0, wide, 4, (0, 62), (64, 256), 1024, swizzle)
        yield Box(0, wide, 4, (-4, 0), (64, 256), 1024, swizzle)


def launch(module: Any, case: Box | Range, place: Any) -> tuple[Any, list[Any]]:
    """The launch of a case and its arguments; `place` puts an array where it shall be."""
    memory = place(np.zeros(BYTES // 4, np.float32))
    if isinstance(case, Range):
        ranges = module.kernel("ranges")[1, 32, 4096]
        return ranges, [memory, case.way, case.off, case.to, case.nbytes]
    rows, columns = case.shape
    # The tensor begins at row 16 of the memory: what a copy reads before it belongs to the array.
    table = memory[16 * case.pitch // 4 :][: rows * case.pitch // 4].reshape(rows, -1)[:, :columns]
    made = weft.tensor_map(table, (case.rows, case.wide), swizzle=case.swizzle)
    boxes = module.kernel("boxes")[1, 32, made.nbytes + 1024]
    return boxes, [made, case.way, *case.at, made.nbytes]
