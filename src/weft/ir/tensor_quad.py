"""`mma.m8n8k4` on f16: four products of 8x4 and 4x8 at once, one in each pair of quads.

Recent hardware has no such unit; its assembler writes f32 FMAs instead, and so does this file.
The fragments are unlike all others, so elements are moved one by one, by tables.
"""

from __future__ import annotations

from collections.abc import Iterator

from weft.ir.builder import BITS, Builder, Val
from weft.ir.tensor_layout import Fragment, packed, quad_pair_layout

_TYPE = {"f16": "half", "f32": "float"}


def call_quad(
    b: Builder, layouts: tuple[str, str], kinds: tuple[str, str], a: Val, bt: Val, c: Val, d: Val
) -> None:
    """Call the function for these layouts of A and B (row, col) and these formats of C and D."""
    name = f"tensor.quad.{'.'.join(layouts + kinds)}"

    def body(b: Builder, ps: list[Val]) -> None:
        tables = [
            b.table(f"{name}.{i}", "i16", offsets)
            for i, offsets in enumerate(_tables(layouts, kinds))
        ]
        near = [b.array("float", n) for n in (32, 32, 64)]
        types = ["half", "half", _TYPE[kinds[0]]]
        with b.loop(4) as q:
            for i, count in enumerate((32, 32, 64)):
                with b.loop(count) as e:
                    v = b.load(types[i], 0, _far(b, ps[i], tables[i], count, q, e))
                    b.store(b.cast("fpext", v, "float"), _near(b, near[i], e))
            with b.loop(8) as m:
                out = _near(b, near[2], m * 8)
                b.store(_row(b, kinds[1], near, m), out, 16)
            with b.loop(64) as e:
                v = b.cast("fptrunc", b.load("float", 0, _near(b, near[2], e)), _TYPE[kinds[1]])
                # A load is taken for canonical, but the FMAs above leave the NaNs of the host
                # processor.
                v.raw_nan = True
                b.store(b.canonical(v), _far(b, ps[3], tables[3], 64, q, e))

    b.helper(name, [("ptr", 0)] * 4, None, body)(a, bt, c, d)


def _row(b: Builder, kind: str, near: list[Val], m: Val) -> Val:
    """Row m of A*B + C, in the order of the assembler's code for this format of D."""
    run, acc = b.load("float", 4, _near(b, near[0], m * 4), 16), _near(b, near[2], m * 8)
    c = b.load("float", 8, acc, 16)
    x = [b.shuffle(run, [k] * 8) for k in range(4)]
    y = [b.load("float", 8, b.at(near[1], k * 32), 16) for k in range(4)]
    if kind == "f16":
        first, second = (b.fma(x[k + 1], y[k + 1], x[k] * y[k]) for k in (0, 2))
        return (c + first) + second
    total = b.zero("float", 8)
    for k in range(4):
        total = b.fma(x[k], y[k], total)
    return total + c


def _far(b: Builder, p: Val, table: Val, count: int, q: Val, e: Val) -> Val:
    """The place of element e of product q among the registers."""
    offset = b.load("i16", 0, b.at(table, ((q * count + e) * 2).zext("i64")))
    return b.at(p, offset.zext("i64"))


def _near(b: Builder, p: Val, e: Val) -> Val:
    return b.at(p, (e * (BITS["float"] // 8)).zext("i64"))


def _tables(layouts: tuple[str, str], kinds: tuple[str, str]) -> Iterator[list[int]]:
    """Byte offsets among the registers of A, B, C and D, row by row."""
    yield _offsets(quad_pair_layout("a", "f16", layouts[0]), (8, 4), "f16")
    yield _offsets(quad_pair_layout("b", "f16", layouts[1]), (4, 8), "f16")
    for kind in kinds:
        yield _offsets(quad_pair_layout("c", kind, ""), (8, 8), kind)


def _offsets(layout: Fragment, size: tuple[int, int], kind: str) -> list[int]:
    """For each product and element, its byte offset among the stored registers."""
    per, out = packed(kind), []
    for q in range(4):
        lanes = (*range(4 * q, 4 * q + 4), *range(4 * q + 16, 4 * q + 20))
        place = {
            layout[slot][lane]: (slot // per * 32 + lane) * 4 + slot % per * 2
            for slot in range(len(layout))
            for lane in lanes
        }
        out += [place[row, col] for row in range(size[0]) for col in range(size[1])]
    return out
