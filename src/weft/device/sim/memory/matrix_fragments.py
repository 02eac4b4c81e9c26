"""Matrix fragments to and from memory.

ldmatrix: the 16-byte rows of an 8 x 8 matrix laid end to end are, in order, the registers of the
32 lanes; so a load is a copy of rows, and a transposed one is a transpose of what was copied.

wmma: lines (rows, or columns of a matrix that lies by columns) start `stride` elements apart. A
table says which line and byte each part of each lane's registers comes from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from weft.device.sim.access import AccessKind, AccessUnit, FragmentRows, MemoryAccess
from weft.device.sim.address import SPACES, Address
from weft.device.sim.memory import checks
from weft.device.sim.memory.accessing import Accessing
from weft.device.sim.memory.resolve import resolve
from weft.ir import Builder, Val
from weft.ir.tensor_layout import WIDTH, fragment_layout, packed, shape_of
from weft.ptx.model import Instruction, Mem, Operand
from weft.records import dataclass

_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)
ROW = 16
"""Bytes of a row of an 8 x 8 matrix of 16-bit elements, and of one piece of a wmma line."""
UNROLL = 8
"""Units of a fragment that are copied in one iteration of a loop; it divides the lanes."""


def _transpose8(b: Builder, args: list[Val]) -> Val:
    """An 8 x 8 matrix of 16-bit elements, one pair of elements per lane, transposed."""
    whole = b.view(args[0], "i16", 64)
    rows = [b.shuffle(whole, range(8 * i, 8 * i + 8)) for i in range(8)]
    low, high = [0, 8, 1, 9, 2, 10, 3, 11], [4, 12, 5, 13, 6, 14, 7, 15]
    for _ in range(3):  # each pass interleaves rows that are four apart
        rows = [b.shuffle(rows[i], half, rows[i + 4]) for i in range(4) for half in (low, high)]
    return b.view(b.concat(rows), "i32", 32)


@dataclass(frozen=True)
class FragmentLines:
    """The location of a wmma fragment in memory.

    parts   for each unit of `unit` bytes of [register][lane]: (line, byte inside the line)
    source  register of the fragment -> register in `parts`
    """

    count: int
    nbytes: int
    default_stride: int
    width: int
    unit: int
    source: tuple[int, ...]
    parts: tuple[tuple[int, int], ...]

    @property
    def register_bytes(self) -> int:
        return max(4, self.width // 8)


def lines_of(matrix: str, shape: str, kind: str, layout: str) -> FragmentLines:
    """The locations of a fragment's registers in a matrix that is stored by rows or by columns."""
    m, n, k = shape_of(shape)
    rows, columns = {"a": (m, k), "b": (k, n)}.get(matrix, (m, n))
    by_rows = layout == "row"
    width, per = WIDTH[kind], packed(kind)
    count, length = (rows, columns) if by_rows else (columns, rows)
    slots = fragment_layout(matrix, shape, kind, layout)
    registers = [slots[i : i + per] for i in range(0, len(slots), per)]
    # Some fragments hold the same elements in two registers; these are loaded once.
    distinct = list(dict.fromkeys(registers))
    bits = []
    for register in distinct:
        for held in zip(*register, strict=True):
            bits.append([(r, c * width) if by_rows else (c, r * width) for r, c in held])
    together = all(x == (b[0][0], b[0][1] + i * width) for b in bits for i, x in enumerate(b))
    parts = [b[0] for b in bits] if together else [x for b in bits for x in b]
    return FragmentLines(
        count=count,
        nbytes=length * width // 8,
        default_stride=length,
        width=width,
        unit=max(4, width // 8) if together else width // 8,
        source=tuple(distinct.index(r) for r in registers),
        parts=tuple((line, bit // 8) for line, bit in parts),
    )


class Matrices:
    """Matrix loads and stores of a warp under emission."""

    def __init__(self, e: Accessing) -> None:
        self.e = e

    # ---- 8 x 8 matrices ---------------------------------------------------------------------
    def load_rows(self, ins: Instruction, count: int, space: str, *, transposed: bool) -> None:
        """`ldmatrix`: lane i names row i % 8 of matrix i / 8."""
        e, b = self.e, self.e.b
        dest, mem = ins.operands
        assert isinstance(mem, Mem)
        data = e.memory.buffer(8)
        self._rows(ins, AccessKind.READ, resolve(e, mem, SPACES[space]), count, data)
        values = [b.load("i32", 32, b.at(data, 128 * i), 64) for i in range(count)]
        e.write_vector(dest, [self._turned(v) for v in values] if transposed else values)

    def store_rows(self, ins: Instruction, count: int, space: str, *, transposed: bool) -> None:
        """`stmatrix`: the inverse of `load_rows`."""
        e, b = self.e, self.e.b
        mem, source = ins.operands
        assert isinstance(mem, Mem)
        data = e.memory.buffer(8)
        for i, v in enumerate(e.read_vector(source, "b32")):
            b.store(self._turned(v) if transposed else v, b.at(data, 128 * i), 64)
        self._rows(ins, AccessKind.WRITE, resolve(e, mem, SPACES[space]), count, data)

    def transpose(self, ins: Instruction) -> None:
        """`movmatrix`."""
        self.e.write(ins.operands[0], self._turned(self.e.read_lanes(ins.operands[1], "b32")))

    def _turned(self, v: Val) -> Val:
        return self.e.b.helper("transpose8", [("i32", 32)], ("i32", 32), _transpose8)(v)

    def _rows(self, ins: Instruction, kind: AccessKind, a: Address, count: int, data: Val) -> None:
        """Copy row by row between memory and `data`; shared memory is checked at once."""
        e, b = self.e, self.e.b
        # Only the first 8 * count lanes name rows; the addresses of the others mean nothing.
        naming = b.integer("i32", (1 << 8 * count) - 1)
        access = MemoryAccess(ins, AccessUnit.MATRIX, kind, a, ROW, lanes=naming)
        e.watch.access(access)
        index = None if access.writes else a.shared_offsets()
        if index is None:
            self._each_row(access, count, data)
        else:
            table = e.memory.offsets()
            b.store(index, table, 64)
            # All rows are tested before any is copied. If one fails, `_each_row` finds the lane.
            quick = b.helper(
                f"ldmatrix_x{count}",
                [_P, _I32, _P, _P],
                ("i1", 0),
                lambda x, args: _load_rows(x, args, count),
            )
            done = quick(e.shared, e.shared_bytes, table, data)
            with b.when(done ^ 1, rare=True):
                self._each_row(access, count, data)
        e.forget_mask()

    def _each_row(self, access: MemoryAccess, count: int, data: Val) -> None:
        e, writes = self.e, access.writes
        lanes = e.executing() & ((1 << 8 * count) - 1)

        def touch(b: Builder, lane: Val, p: Val, extra: list[Val]) -> None:
            at = b.at(extra[0], lane.zext("i64") << 4)
            source, target = (at, p) if writes else (p, at)
            b.store(b.load("i64", 2, source, ROW), target, ROW)

        name = f"{'st' if writes else 'ld'}matrix_{access.space}"
        fn = checks.checked_lanes(e, name, access, [_P], touch)
        e.abort_unless(fn(e.memory.addresses(access.address), lanes, e.windows.site(), data))

    # ---- fragments of wmma ------------------------------------------------------------------
    def load_fragment(
        self, ins: Instruction, matrix: str, shape: str, kind: str, layout: str, space: str
    ) -> None:
        """`wmma.load`."""
        e, b = self.e, self.e.b
        dest, mem, *stride = ins.operands
        lines = lines_of(matrix, shape, kind, layout)
        first, step = self._checked(ins, AccessKind.READ, mem, stride, lines, space)
        data = e.memory.buffer(8)
        name = f"wmma_load_{matrix}_{shape}_{kind}_{layout}"
        b.helper(name, [_I64, _I64, _P], None, _copier(name, lines, writes=False))(
            first, step, data
        )
        ty, size = f"i{8 * lines.register_bytes}", 32 * lines.register_bytes
        e.write_vector(dest, [b.load(ty, 32, b.at(data, size * i), 64) for i in lines.source])

    def store_fragment(
        self, ins: Instruction, shape: str, kind: str, layout: str, space: str
    ) -> None:
        """`wmma.store`."""
        e, b = self.e, self.e.b
        mem, source, *stride = ins.operands
        lines = lines_of("d", shape, kind, layout)
        data, size = e.memory.buffer(8), 32 * lines.register_bytes
        for i, v in enumerate(e.read_vector(source, f"b{8 * lines.register_bytes}")):
            b.store(v, b.at(data, size * i), 64)
        first, step = self._checked(ins, AccessKind.WRITE, mem, stride, lines, space)
        name = f"wmma_store_{shape}_{kind}_{layout}"
        b.helper(name, [_I64, _I64, _P], None, _copier(name, lines, writes=True))(first, step, data)

    def _checked(
        self,
        ins: Instruction,
        kind: AccessKind,
        mem: Operand,
        stride: list[Operand],
        lines: FragmentLines,
        space: str,
    ) -> tuple[Val, Val]:
        """(address of the first line, bytes between lines), all lines inside an allocation."""
        e, b = self.e, self.e.b
        assert isinstance(mem, Mem)
        a = resolve(e, mem, SPACES[space])
        leader = b.intrinsic("cttz", [e.executing()], extra="false") & 31
        first = self._of_leader(a, leader)
        elements = b.integer("i32", lines.default_stride)
        if stride:
            lanes = e.read(stride[0], "u32")
            elements = b.extract(lanes, leader) if lanes.lanes else lanes
        step = (elements.zext("i64") * lines.width) >> 3
        rows = FragmentRows(first, step, lines.count, lines.nbytes, lines.unit, lines.parts)
        access = MemoryAccess(ins, AccessUnit.FRAGMENT, kind, a, lines.nbytes, rows=rows)
        e.watch.access(access)
        self._check_lines(access, rows)
        return first, step

    def _of_leader(self, a: Address, leader: Val) -> Val:
        """The address that all lanes name; if that is not known to be one, the first lane's."""
        b = self.e.b
        if a.uniform and a.first is not None:
            return a.first
        return b.load("i64", 0, b.at(self.e.memory.addresses(a), leader.zext("i64") << 3), 8)

    def _check_lines(self, access: MemoryAccess, rows: FragmentRows) -> None:
        """Check that the ends of the matrix are inside one window, or else every piece of a line.

        Lines are then checked as if lane i accessed line i.
        """
        e, b, first, step = self.e, self.e.b, rows.first, rows.step
        piece = min(ROW, rows.nbytes)
        # The stride is unsigned, so lines ascend and the two ends bound them.
        last = first + step * (rows.count - 1) + (rows.nbytes - piece)
        inside = e.windows.both_inside(access.address, first, last, piece)
        inside = inside & ((first | step) & (piece - 1)).eq(0)
        with b.when(inside ^ 1, rare=True):
            self._check_each_line(replace(access, nbytes=piece), rows)
        e.forget_mask()

    def _check_each_line(self, piece: MemoryAccess, rows: FragmentRows) -> None:
        """Check each line; `piece` is the part of a line that is looked up at a time."""
        e, b, nbytes = self.e, self.e.b, piece.nbytes

        def nothing(x: Builder, lane: Val, p: Val, extra: list[Val]) -> None:
            """Do nothing: only the check matters."""

        name = f"wmma_{'store' if piece.writes else 'load'}_check_{piece.space}_{nbytes}"
        check = checks.checked_lanes(e, name, piece, [], nothing)
        table = e.memory.table()
        spread = b.helper("wmma_lines", [_I64, _I64, _P], None, _line_addresses)
        asked = b.integer("i32", (1 << rows.count) - 1)
        with b.loop(rows.nbytes // nbytes) as i:
            spread(rows.first + i.zext("i64") * nbytes, rows.step, table)
            e.abort_unless(check(table, asked, e.windows.site()))


def _load_rows(b: Builder, args: list[Val], count: int) -> Val:
    """(shared memory, its size, offsets, data) -> true if all rows were inside and are copied."""
    shared, size, table, data = args
    offsets = b.load("i32", 8 * count, table, 32)
    starts = b.intrinsic("usub.sat", [size, b.integer("i32", ROW - 1)])
    wrong = b.any(offsets.uge(starts) | (offsets & (ROW - 1)).ne(0))
    with b.when(wrong ^ 1), b.loop(count) as i:
        k = i.zext("i64")
        rows, target = b.at(table, k << 5), b.at(data, k << 7)
        for j in range(8):
            at = b.load("i32", 0, b.at(rows, 4 * j)).zext("i64")
            b.store(b.load("i64", 2, b.at(shared, at), ROW), b.at(target, ROW * j), ROW)
    return wrong ^ 1


def _line_addresses(b: Builder, args: list[Val]) -> None:
    first, step, out = args
    with b.loop(32) as i:
        k = i.zext("i64")
        b.store(first + k * step, b.at(out, k << 3), 8)


def _copier(
    name: str, lines: FragmentLines, *, writes: bool
) -> Callable[[Builder, list[Val]], None]:
    """(first line, step, data): copies every unit of the fragment, in either direction."""

    def body(b: Builder, args: list[Val]) -> None:
        first, step, data = args
        table = b.table(f"{name}_parts", "i16", [x for part in lines.parts for x in part])
        start = b.val("ptr", 0, f"inttoptr {first.typed} to ptr")
        with b.loop(len(lines.parts) // UNROLL) as i:
            k = i.zext("i64") * UNROLL
            entries, piece = b.at(table, k << 2), b.at(data, k * lines.unit)
            for j in range(UNROLL):
                line = b.load("i16", 0, b.at(entries, 4 * j), 4).zext("i64")
                byte = b.load("i16", 0, b.at(entries, 4 * j + 2), 2).zext("i64")
                far, near = b.at(start, line * step + byte), b.at(piece, j * lines.unit)
                source, target = (near, far) if writes else (far, near)
                ty = f"i{8 * lines.unit}"
                b.store(b.load(ty, 0, source, lines.unit), target, lines.unit)

    return body
