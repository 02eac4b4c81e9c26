"""One launch of the transform kernel: the elements that it reads and writes."""

from __future__ import annotations

from dataclasses import dataclass

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.plan import Argument, Constant, Pointer, Step
from weft.ops.core.target import Target
from weft.ops.families.fft import model, tables
from weft.ops.families.fft.banks import Room, room
from weft.ops.families.fft.lengths import Stages
from weft.ops.families.fft.structs import STRUCTS, Problem


@dataclass(frozen=True)
class Side:
    """A tensor that a pass reads or writes: its address, and strides in elements.

    n, c, middle, outer  along a transform, and along the three dimensions of transforms
    by_column            adjacent threads access adjacent transforms
    next                 from a real number to the second one of its pair
    paired               both numbers of a pair are one aligned vector
    """

    pointer: Pointer
    n: int
    c: int
    middle: int = 0
    outer: int = 0
    by_column: bool = False
    next: int = 0
    paired: bool = False


@dataclass(frozen=True)
class Input:
    """The input of a pass; access.cuh explains the kinds.

    valid        elements that exist; the others are 0
    step, shift  element i of transform c has the number i step + c shift
    """

    kind: str
    valid: int
    ctype: str = "float2"
    swap: bool = False
    step: int = 1
    shift: int = 0

    def whole(self, n: int) -> bool:
        """True if all elements of a transform of length n exist."""
        needed = {"PAIRS": 2 * n, "SPECTRUM": n // 2 + 1, "FOLDED": n + 1}.get(self.kind, n)
        return self.valid >= needed * self.step


@dataclass(frozen=True)
class Output:
    """The output of a pass; access.cuh explains the kinds.

    whole  the length for TWIDDLED; with a chirp, the elements of the whole transform
    """

    kind: str
    swap: bool = False
    scale: float = 1.0
    whole: int = 0


@dataclass(frozen=True)
class Pass:
    """One launch: `count` x `middle` x `outer` transforms of `length` elements.

    Stages of a longer transform compute them by Bluestein's algorithm.

    chirp   multiplies the input of the first pass of a convolution, or the output of the last one
    joined  blocks go on from one row of `count` transforms to the next of `middle`
    """

    length: int
    stages: Stages
    count: int
    middle: int
    outer: int
    source: Side
    result: Side
    input: Input
    output: Output
    weight: float = 1.0
    chirp: Constant | None = None
    joined: bool = False

    @property
    def rows(self) -> tuple[int, int]:
        """(transforms that blocks share out, how often)."""
        if self.joined:
            return self.count * self.middle, self.outer
        return self.count, self.middle * self.outer

    def columns(self, target: Target) -> int:
        """Transforms of a block."""
        s, (count, rows) = self.stages, self.rows
        if self.source.by_column or self.result.by_column:
            # Transforms of few threads fill a block together.
            more = [
                c
                for c in (model.PASS_THREADS, model.PASS_THREADS // 2, model.PASS_THREADS // 4)
                if c * s.threads <= model.PASS_THREADS
            ]
            fitting = [c for c in (*more, *model.COLUMN_COUNTS) if c == 1 or self._fits(c, target)]
            # Few transforms: fewer of them in a block, down to those of a sector.
            blocks = target.sms // rows
            filling = [c for c in fitting if cdiv(count, c) >= blocks or c <= 4]
            return (filling or fitting)[0]
        # Whole warps: a transform of few threads waits for its warp only.
        least = cdiv(32, s.threads) if 32 % s.threads == 0 else 1
        many = max(1, model.PASS_THREADS // s.threads, least)
        while many > least and cdiv(count * rows, many) < 2 * target.sms:
            many = max(least, many // 2)
        return many

    def _fits(self, columns: int, target: Target) -> bool:
        """True if a block of so many adjacent transforms is small enough."""
        s = self.stages
        # Two blocks on an SM overlap their memory accesses; less than a sector is worse.
        room = target.shared_per_sm // 2 if columns > 4 else target.shared_per_block
        return columns <= self.rows[0] and s.threads * columns <= 1024 and 9 * s.n * columns <= room

    @property
    def staged(self) -> bool:
        """True if a transform has so few threads that they would read less than a sector."""
        rows = not self.source.by_column and not self.result.by_column
        return rows and self.stages.threads < 4 and 1 < self.stages.n == self.length

    def room(self, target: Target) -> Room:
        columns = self.columns(target)
        if self.staged and len(self.stages.radices) == 1:
            # An odd distance: the threads of a warp then access different banks.
            return Room(self.stages.n, columns, 0, True, 1 - self.stages.n % 2)
        return room(self.stages, columns, self.source.by_column, self.result.by_column)

    def step(self, target: Target) -> Step:
        made = self.room(target)
        words: tuple[str, ...] = (
            stages_word(self.stages), room_word(made), _bool(self.source.by_column),
            _bool(self.result.by_column), _bool(self.staged), _bool(self.joined), self.load(),
            self.store(),
        )  # fmt: skip
        count, rows = self.rows
        tiles = cdiv(count, made.columns)
        args: tuple[Argument, ...] = (
            self.source.pointer,
            self.result.pointer,
            self.problem(tiles),
            tables.stage_roots(self.stages),
            self.turns(),
        )
        name = "transform"
        if self.length != self.stages.n:
            name, back = "bluestein", self.stages.reversed()
            words = (str(self.length), words[0], stages_word(back), *words[1:4], *words[6:])
            chirp, spectrum = tables.chirp(self.length), tables.chirp_spectrum(self.length, back.n)
            args = (*args[:4], tables.stage_roots(back), args[4], chirp, spectrum)
        kernel = source.kernel("fft/transform.cu", f"{name}<{', '.join(words)}>", **STRUCTS)
        shared = made.bytes if self.exchanges else 0
        block = (self.stages.threads * made.columns,)
        return Step(kernel, (tiles * rows,), block, args, shared)

    @property
    def exchanges(self) -> bool:
        """True if threads exchange elements through shared memory."""
        return len(self.stages.radices) > 1 or self.output.kind == "UNFOLDED" or self.staged

    def turns(self) -> Constant | None:
        if self.chirp is not None:
            return self.chirp
        folds = self.input.kind == "FOLDED" or self.output.kind == "UNFOLDED"
        return tables.turns(self.length) if folds else None

    def load(self) -> str:
        x, s = self.input, self.source
        unit = s.n == (2 if x.kind == "PAIRS" else 1)
        chirped = self.chirp is not None and self.output.kind == "TWIDDLED"
        flags = (unit, x.whole(self.length), s.paired, x.swap, chirped)
        return f"Load<{x.kind}, {x.ctype}, {', '.join(map(_bool, flags))}>"

    def store(self) -> str:
        y, s = self.output, self.result
        chirped = self.chirp is not None and y.kind != "TWIDDLED"
        flags = (s.n == (2 if y.kind == "SPLIT" else 1), s.paired, y.swap, chirped)
        return f"Store<{y.kind}, {', '.join(map(_bool, flags))}>"

    def problem(self, tiles: int, written: int = 0) -> bytes:
        """The struct that the kernels take; `written` elements are written, by default all."""
        x, y = self.source, self.result
        return Problem(
            x.n, x.c, x.middle, x.outer, y.n, y.c, y.middle, y.outer, x.next, y.next,
            self.output.whole, self.input.valid, self.input.step, self.input.shift, self.count,
            self.middle, tiles, written or self.length, self.output.scale, self.weight,
        ).pack()  # fmt: skip


def stages_word(s: Stages) -> str:
    """The C++ type of stages."""
    return f"Stages<{s.n}, {s.threads}, {', '.join(map(str, s.radices))}>"


def room_word(r: Room) -> str:
    """The C++ type of a room."""
    return f"Room<{r.n}, {r.columns}, {r.pad}, {_bool(r.apart)}, {r.gap}>"


def _bool(value: bool) -> str:
    return str(value).lower()
