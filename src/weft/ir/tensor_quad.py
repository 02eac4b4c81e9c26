"""`mma.m8n8k4` on f16: four products of 8x4 and 4x8 at once, one in each pair of quads.

Its fragments are unlike all others, so elements are moved one by one, by tables, into the form
that a step reads, and back.
"""

from __future__ import annotations

from collections.abc import Iterator

from weft.ir.builder import BITS, Builder, Val
from weft.ir.tensor_layout import Fragment, packed, quad_pair_layout
from weft.ir.tensor_operand import Step
from weft.ir.tensor_step import call_step


def call_quad(
    b: Builder, layouts: tuple[str, str], kinds: tuple[str, str], a: Val, bt: Val, c: Val, d: Val,
    *, fast: bool,
) -> None:  # fmt: skip
    """Calls the function for these layouts of A and B (row, col) and these formats of C and D."""
    name = f"tensor.quad.{'.'.join(layouts + kinds)}{'.fast' if fast else ''}"
    step = Step("f16", kinds[1], 8, 4, width=4)
    ty_c, ty_d = (_TYPE[kind] for kind in kinds)

    def body(b: Builder, ps: list[Val]) -> None:
        table_a, table_b, table_c, table_d = (
            b.table(f"{name}.{i}", "i16", offsets)
            for i, offsets in enumerate(_tables(layouts, kinds))
        )
        near = [b.array(t, n) for t, n in (("half", 32), ("half", 32), (ty_d, 64), (ty_d, 64))]
        with b.loop(4) as q:
            for far, table, to in ((ps[0], table_a, near[0]), (ps[1], table_b, near[1])):
                with b.loop(32) as i:
                    b.store(b.load("i16", 0, _far(b, far, table, 32, q, i)), _near(b, to, "i16", i))
            with b.loop(64) as i:
                v = b.load(ty_c, 0, _far(b, ps[2], table_c, 64, q, i))
                b.store(b.cast("fpext", v, ty_d), _near(b, near[2], ty_d, i))
            call_step(b, step, *near, fast=fast)
            with b.loop(64) as i:
                v = b.load(ty_d, 0, _near(b, near[3], ty_d, i))
                b.store(v, _far(b, ps[3], table_d, 64, q, i))

    b.helper(name, [("ptr", 0)] * 4, None, body)(a, bt, c, d)


_TYPE = {"f16": "half", "f32": "float"}


def _far(b: Builder, p: Val, table: Val, count: int, q: Val, i: Val) -> Val:
    """Where element i of product q stands among the registers."""
    offset = b.load("i16", 0, b.at(table, ((q * count + i) * 2).zext("i64")))
    return b.at(p, offset.zext("i64"))


def _near(b: Builder, p: Val, ty: str, i: Val) -> Val:
    return b.at(p, (i * (BITS[ty] // 8)).zext("i64"))


def _tables(layouts: tuple[str, str], kinds: tuple[str, str]) -> Iterator[list[int]]:
    """Byte offsets among the registers of A, B, C and D, in the order that the step reads."""
    halves = [(m, k) for m in range(8) for k in range(4)]
    outputs = [(m, n) for m in range(8) for n in range(8)]
    if kinds[1] == "f32":  # even columns in one register, odd ones in the next
        outputs.sort(key=lambda place: place[1] % 2)
    yield _offsets(quad_pair_layout("a", "f16", layouts[0]), halves, "f16")
    yield _offsets(quad_pair_layout("b", "f16", layouts[1]), [(k, n) for n, k in halves], "f16")
    for kind in kinds:
        yield _offsets(quad_pair_layout("c", kind, ""), outputs, kind)


def _offsets(layout: Fragment, order: list[tuple[int, int]], kind: str) -> list[int]:
    """For each product and element in `order`, its byte offset among the stored registers."""
    per, out = packed(kind), []
    for q in range(4):
        lanes = (*range(4 * q, 4 * q + 4), *range(4 * q + 16, 4 * q + 20))
        place = {
            layout[slot][lane]: ((slot // per * 32 + lane) * per + slot % per) * 4 // per
            for slot in range(len(layout))
            for lane in lanes
        }
        out += [place[element] for element in order]
    return out
