"""Candidates of the pooling kernels: several kernels per pass, and vectors of several widths.

windows   a thread computes one place, for several channels where they are last in memory
planes    the same for several planes, where it takes long to find the windows
groups    the same by a warp, for large windows
disjoint  a thread computes several places of a row, for windows that share nothing
strips    a thread computes several places of a row, and reads shared elements once
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate
from weft.ops.core.plan import Argument, Buffer, Layout, Plan, Pointer, Step
from weft.ops.core.target import Target
from weft.ops.families.elementwise.copies import contiguous
from weft.ops.families.elementwise.pointwise import INT32_INDICES
from weft.ops.families.pool import model
from weft.ops.families.pool.model import REGISTER_ELEMENTS, VECTOR_BYTES, WARP
from weft.ops.families.pool.structs import STRUCTS, PoolShape, size_of
from weft.ops.families.pool.windows import PoolView, Windows, as_order, buffer, is_last

BLOCK = 256


@dataclass(frozen=True)
class PoolJob:
    """One pass of a pooling.

    name      of the kernels: "max" or "mean"
    backward  True if the input's gradient is computed
    view      the input, or its gradient
    code      the C++ type of a maximum's saved place; "" for none, None for means
    moved     bytes of all tensors
    aligned   the alignment of the tensors that are read
    pointers  the arguments before the numbers
    """

    name: str
    backward: bool
    windows: Windows
    view: PoolView
    dtype: torch.dtype
    code: str | None
    moved: int
    aligned: int
    pointers: tuple[Argument, ...]
    numbers: tuple[int, ...]
    outputs: tuple[Buffer, ...]
    before: tuple[Step, ...] = ()
    scratch: tuple[Buffer, ...] = ()

    @property
    def sizes(self) -> tuple[int, int]:
        return self.windows.sizes(self.view.height, self.view.width)

    @property
    def axes(self) -> str:
        """The C++ types of the windows along height and width."""
        return self.windows.axes(self.view.height, self.view.width)

    @property
    def _itemsize(self) -> int:
        return int(self.dtype.itemsize)

    def candidates(self, target: Target, before: float) -> list[Candidate]:
        """All candidates; `before` is the time of a copy."""
        least = before + target.launch
        return [
            *(
                Candidate(f"disjoint by {n}", least + self._time(target, n, self._wide(n)),
                          f"{n} windows of a row per thread, {self.moved:,} bytes",
                          functools.partial(self._disjoint, n))
                for n in self._together()
            ),
            *(
                Candidate(f"strips by {n}", least + self._strips_time(target, n),
                          f"{n} windows of a row per thread, {self.moved:,} bytes",
                          functools.partial(self._strips, n))
                for n in self._overlapping()
            ),
            Candidate(f"windows by {self._vector}", least + self._windows_time(target, 1),
                      f"one place per thread, {self._vector} channels, {self.moved:,} bytes",
                      functools.partial(self._windows, self._vector)),
            *(
                [Candidate(f"planes by {n}", least + self._windows_time(target, 1, n),
                           f"one place of {n} planes per thread, {self.moved:,} bytes",
                           functools.partial(self._windows, self._vector, planes=n))]
                if (n := self._planes) > 1 and n <= self.view.planes < 2**31
                and not self._large() else []
            ),
            *(
                [Candidate(f"groups by {self._vector}", least + self._windows_time(target, WARP),
                           f"one place per warp, {self._vector} channels, {self.moved:,} bytes",
                           functools.partial(self._windows, self._vector, WARP))]
                if self._large() else []
            ),
        ]  # fmt: skip

    # ---- windows and groups --------------------------------------------------------------------
    @property
    def taps(self) -> int:
        """Positions of a window, or about so many."""
        v, (rows, columns) = self.view, self.sizes
        return self.windows.taps or cdiv(v.height, rows) * cdiv(v.width, columns)

    @property
    def _touched(self) -> float:
        """The share of the input's rows that windows lie on."""
        w = self.windows
        return 1.0 if self.backward or w.out else min(1.0, w.kernel[0] / w.stride[0])

    def _large(self) -> bool:
        """True if a forward pass has windows of so many taps that a warp may share one."""
        return not self.backward and self.windows.dilation == (1, 1) and self.taps >= WARP

    def _windows_time(self, target: Target, threads: int, planes: int = 1) -> float:
        """Seconds with so many threads per place, or planes per thread.

        Those of the memory, of loads one after another, or of the instructions.
        """
        moving = model.SCATTERED_FACTOR * self._touched * self.moved / target.bandwidth
        rows, columns = (self.view.height, self.view.width) if self.backward else self.sizes
        places = cdiv(self.view.planes, planes) * rows * columns * (self.view.inner // self._vector)
        waves = cdiv(places * threads, target.threads)
        dividing = (
            2 * model.ADAPTIVE_INSTRUCTIONS * places * threads / target.fp32
            if self.windows.out
            else 0.0
        )
        if self.backward:
            return max(
                moving,
                dividing,
                waves * (1 + (planes - 1) * model.OVERLAPPED_LOAD) * model.LOAD_TIME,
            )
        joining = model.WARP_JOIN_TIME if threads > 1 else 0.0
        taps = cdiv(self.taps, threads)
        loads = taps * (1 + (planes - 1) * model.OVERLAPPED_LOAD)
        each = (
            model.MAX_INSTRUCTIONS
            if self.code == "" and threads == 1
            else model.ELEMENT_INSTRUCTIONS
        )
        instructions = model.PLACE_INSTRUCTIONS + taps * (
            model.TAP_INSTRUCTIONS + each * self._vector * planes
        )
        computing = 2 * instructions * places * threads / target.fp32
        busy = max(moving, computing) + 0.25 * min(moving, computing)
        load = model.LOAD_TIME * (model.CHANNELS_LAST_LOADS if self.view.inner > 1 else 1)
        return max(busy, dividing, waves * (loads * load + joining))

    @property
    def _vector(self) -> int:
        """Channels that a thread loads at once."""
        size = self._itemsize
        vector = VECTOR_BYTES // size
        while vector > 1 and (self.view.inner % vector or self.aligned % (vector * size)):
            vector //= 2
        return vector

    @property
    def _planes(self) -> int:
        """Planes that a thread may have: of means, if adaptive windows take divisions."""
        return (
            max(1, model.PLANE_ELEMENTS // self._vector)
            if self.name == "mean" and self.windows.out
            else 1
        )

    def _windows(self, vector: int, threads: int = 1, planes: int = 1) -> Plan:
        v = self.view
        rows, columns = (v.height, v.width) if self.backward else self.sizes
        forward = "groups" if threads > 1 else "windows"
        name = f"{self.name}_{'gather' if self.backward else forward}"
        shape, last = (rows, columns, v.inner // vector), f"{self.axes}, {vector}"
        if planes > 1:
            last += f", {planes}"
        return self._plan(name, last, *shape, self.numbers, threads, planes)

    # ---- disjoint ------------------------------------------------------------------------------
    def _wide(self, n: int) -> int:
        """Bytes of one access to the larger tensor."""
        count = n * self.windows.kernel[1]
        return min(VECTOR_BYTES, (count & -count) * self._itemsize)

    def _together(self) -> Iterator[int]:
        """Numbers of windows of a row that a thread may have."""
        v, taps = self.view, self.windows.taps
        if v.inner > 1 or not self.windows.disjoint(v.height, v.width):
            return
        columns, size = self.sizes[1], self._itemsize
        for n in (8, 4, 2, 1):
            whole = columns % n == 0 and n * taps <= REGISTER_ELEMENTS
            reads = n * size if self.backward else self._wide(n)
            if whole and self.aligned % min(VECTOR_BYTES, reads) == 0:
                yield n

    def _time(self, target: Target, n: int, wide: int) -> float:
        """Accesses of 16 bytes reach the bandwidth; shorter or scattered ones do not."""
        along = n * self.windows.kernel[1] * self._itemsize
        apart = max(0.0, along / VECTOR_BYTES - 1)  # neighbours' vectors are not adjacent
        short = model.SHORT_ACCESS
        moving = (
            self.moved / target.bandwidth * (1 + short * (VECTOR_BYTES / wide - 1) + short * apart)
        )
        return max(moving, self._computing(target, n, model.DISJOINT_TAP_INSTRUCTIONS))

    def _computing(self, target: Target, n: int, tap: float) -> float:
        """Seconds of the instructions of a forward pass, if a thread has n windows."""
        results = 0 if self.backward else self.view.planes * math.prod(self.sizes)
        return 2 * results * (tap * self.windows.taps + model.STRIP_INSTRUCTIONS / n) / target.fp32

    def _disjoint(self, n: int) -> Plan:
        rows, columns = self.sizes
        if self.backward:
            rows = cdiv(self.view.height, self.windows.kernel[0])
        name = f"{self.name}_{'spread' if self.backward else 'disjoint'}"
        kernel = ", ".join(map(str, self.windows.kernel))
        numbers = self.numbers[:1]  # there is no padding to count
        return self._plan(name, f"{kernel}, {n}", rows, columns // n, 1, numbers)

    # ---- strips --------------------------------------------------------------------------------
    def _overlapping(self) -> Iterator[int]:
        """Numbers of windows of a row that a thread of `strips` may have."""
        v, w = self.view, self.windows
        columns, step = self.sizes[1], w.stride[1]
        if v.inner > 1 or w.out or w.dilation[1] > 1 or step > w.kernel[1]:
            return
        if columns * step != v.width or w.taps > REGISTER_ELEMENTS:
            return
        for n in (8, 4, 2):
            count = n if self.backward else n * step
            reads = min(VECTOR_BYTES, (count & -count) * self._itemsize)
            fits = (
                n * self._itemsize <= VECTOR_BYTES and n * step + w.kernel[1] <= REGISTER_ELEMENTS
            )
            if fits and columns % n == 0 and self.aligned % reads == 0:
                yield n

    def _strips_time(self, target: Target, n: int) -> float:
        short = VECTOR_BYTES / (n * self._itemsize) - 1
        moving = self.moved / target.bandwidth * (model.STRIP_FACTOR + model.SHORT_ACCESS * short)
        tap = model.STRIP_TAP_INSTRUCTIONS[self.name]
        alone = model.STRIP_INSTRUCTIONS + n * tap * self.windows.taps
        return max(moving, self._computing(target, n, tap)) + model.STRIP_WAIT * alone

    def _strips(self, n: int) -> Plan:
        rows, columns = (self.view.height, self.sizes[1]) if self.backward else self.sizes
        name = f"{self.name}_{'cover' if self.backward else 'strips'}"
        return self._plan(name, f"{self.axes}, {n}", rows, columns // n, 1, self.numbers)

    # ---- both ----------------------------------------------------------------------------------
    def _plan(
        self, name: str, last: str, rows: int, columns: int, inner: int, numbers: tuple[int, ...],
        threads: int = 1, planes: int = 1,
    ) -> Plan:  # fmt: skip
        v = self.view
        total = cdiv(v.planes, planes) * rows * columns * inner
        plane = v.inner * max(v.height * v.width, math.prod(self.sizes))
        index = "unsigned" if max(total + BLOCK, plane) < INT32_INDICES else "long long"
        code = [] if self.code is None else [self.code or "Nothing"]
        types = ", ".join([source.ctype(self.dtype), *code, index])
        file = "pool/backward.cu" if self.backward else "pool/forward.cu"
        kernel = source.kernel(file, f"{name}<{types}, {last}>", **STRUCTS)
        shape = PoolShape(
            total, v.height, v.width, *self.sizes, size_of(inner), size_of(columns), size_of(rows),
            v.planes if planes > 1 else 0,
        ).pack()  # fmt: skip
        grid, args = (cdiv(total * threads, BLOCK),), (*self.pointers, *numbers, shape)
        step = Step(kernel, grid, (BLOCK,), args, early=True)
        return Plan((*self.before, step), self.outputs, self.scratch)


def code_dtype(windows: Windows) -> torch.dtype:
    """The dtype of a maximum's saved place: its tap as a byte, or its position."""
    return torch.uint8 if 0 < windows.taps <= 256 else torch.int32


CODES = {torch.uint8: "unsigned char", torch.int32: "int", torch.int64: "long long"}


def nothing(outputs: tuple[Buffer, ...]) -> list[Candidate]:
    """For tensors without elements."""
    return [Candidate("empty", 0.0, "no elements", lambda: Plan((), outputs))]


class Read(NamedTuple):
    """A tensor that a kernel reads: its address, its alignment, and the copy that precedes."""

    pointer: Pointer
    aligned: int
    steps: tuple[Step, ...] = ()
    cost: float = 0.0
    scratch: tuple[Buffer, ...] = ()


def read(x: Layout, last: bool, number: int, spare: int, target: Target) -> Read:
    """Tensor `number` in dense memory order; if it is not, a copy of it as tensor `spare`."""
    if x.contiguous if not last else is_last(x.shape, x.strides):
        return Read(Pointer(number), x.aligned)
    copy = contiguous(as_order(x, last), Pointer(number), Pointer(spare), target)
    return Read(
        Pointer(spare), VECTOR_BYTES, copy.steps, copy.cost, (buffer(x.shape, x.dtype, last),)
    )
