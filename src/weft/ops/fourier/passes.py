"""Describes one launch of the transform kernel: which elements it reads, and what it writes."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from weft.kernels import cdiv
from weft.ops import source
from weft.ops.fourier import tables
from weft.ops.fourier.banks import Room, room
from weft.ops.fourier.lengths import Stages
from weft.ops.plan import Constant, Pointer, Step
from weft.ops.target import Target

THREADS = 256
"""Threads of a block that has several transforms of adjacent elements."""
COLUMNS = 16
"""Adjacent transforms of a block: 16 complex numbers are 128 bytes."""


@dataclass(frozen=True)
class Side:
    """A tensor that a pass reads or writes: its address, and strides in elements.

    n, c, middle, outer  along a transform, and along the three dimensions of transforms
    by_column            adjacent threads access adjacent transforms
    """

    pointer: Pointer
    n: int
    c: int
    middle: int = 0
    outer: int = 0
    by_column: bool = False


@dataclass(frozen=True)
class Input:
    """What a pass reads; access.cuh explains the kinds. `valid` elements exist, others are 0."""

    kind: str
    valid: int
    ctype: str = "float2"
    swap: bool = False
    aligned: bool = True

    def whole(self, n: int) -> bool:
        needed = {"PAIRS": 2 * n, "SPECTRUM": n // 2 + 1, "FOLDED": n + 1}.get(self.kind, n)
        return self.valid >= needed


@dataclass(frozen=True)
class Output:
    """What a pass writes; access.cuh explains the kinds. `whole` is the length for TURNED."""

    kind: str
    kept: int
    swap: bool = False
    aligned: bool = True
    scale: float = 1.0
    whole: int = 0


@dataclass(frozen=True)
class Pass:
    """One launch: `count` x `middle` x `outer` transforms."""

    stages: Stages
    count: int
    middle: int
    outer: int
    source: Side
    result: Side
    input: Input
    output: Output
    weight: float = 1.0

    def columns(self, target: Target) -> int:
        """Transforms of a block."""
        s, total = self.stages, self.count * self.middle * self.outer
        if self.source.by_column or self.result.by_column:
            most = min(COLUMNS, self.count)
            while most > 1 and (
                s.threads * most > 1024 or 9 * s.n * most > target.shared_per_sm // 2
            ):
                most //= 2
            return most
        # Whole warps: a transform of few threads waits for its warp only.
        least = cdiv(32, s.threads) if 32 % s.threads == 0 else 1
        many = max(1, THREADS // s.threads, least)
        while many > least and cdiv(total, many) < 2 * target.sms:
            many = max(least, many // 2)
        return many

    def room(self, target: Target) -> Room:
        columns = self.columns(target)
        return room(self.stages, columns, self.source.by_column, self.result.by_column)

    def step(self, target: Target) -> Step:
        made = self.room(target)
        words = (
            _stages(self.stages), _room(made), _bool(self.source.by_column),
            _bool(self.result.by_column), self.load(), self.store(),
        )  # fmt: skip
        kernel = source.kernel("fft/transform.cu", f"transform<{', '.join(words)}>")
        tiles = cdiv(self.count, made.columns)
        args = (
            self.source.pointer, self.result.pointer, self.problem(tiles),
            tables.stage_roots(self.stages), self.turns(),
        )  # fmt: skip
        shared = made.bytes if self.exchanges else 0
        block = (self.stages.threads * made.columns,)
        return Step(kernel, (tiles * self.middle * self.outer,), block, args, shared)

    @property
    def exchanges(self) -> bool:
        """True if threads exchange elements through shared memory."""
        return len(self.stages.radices) > 1 or self.output.kind == "UNFOLDED"

    def turns(self) -> Constant | None:
        folds = self.input.kind == "FOLDED" or self.output.kind == "UNFOLDED"
        return tables.turns(self.stages.n) if folds else None

    def load(self) -> str:
        x, s = self.input, self.source
        flags = (s.n == 1 and x.aligned, x.whole(self.stages.n), x.swap)
        return f"Load<{x.kind}, {x.ctype}, {', '.join(map(_bool, flags))}>"

    def store(self) -> str:
        y = self.output
        return f"Store<{y.kind}, {_bool(self.result.n == 1 and y.aligned)}, {_bool(y.swap)}>"

    def problem(self, tiles: int) -> bytes:
        """The struct that the kernels take."""
        x, y = self.source, self.result
        return struct.pack(
            "<9q5i2f4x", x.n, x.c, x.middle, x.outer, y.n, y.c, y.middle, y.outer,
            self.output.whole, self.count, self.middle, tiles, self.input.valid, self.output.kept,
            self.output.scale, self.weight,
        )  # fmt: skip


def _stages(s: Stages) -> str:
    return f"Stages<{s.n}, {s.threads}, {', '.join(map(str, s.radices))}>"


def _room(r: Room) -> str:
    return f"Room<{r.n}, {r.columns}, {r.pad}, {_bool(r.apart)}>"


def _bool(value: bool) -> str:
    return str(value).lower()
