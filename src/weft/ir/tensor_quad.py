"""`mma.m8n8k4` on f16: four products of 8x4 and 4x8 at once, one in each pair of quads.

Its fragments are unlike all others, so elements are moved one by one, by tables, into the form
that a step reads, and back.
"""

from __future__ import annotations

from weft.ir.builder import Builder, Val
from weft.ir.tensor_layout import Fragment, packed, quad_pair_layout
from weft.ir.tensor_operand import Step
from weft.ir.tensor_step import call_step


def call_quad(
    b: Builder, layouts: tuple[str, str], accumulator: str, a: Val, bt: Val, c: Val, d: Val,
    *, fast: bool,
) -> None:  # fmt: skip
    """Calls the function of the form with these layouts of A and B (row, col)."""
    step = Step("f16", accumulator, 8, 4, width=4)
    ty = "i16" if accumulator == "f16" else "i32"
    of_a, of_b = (quad_pair_layout(x, "f16", lay) for x, lay in zip("ab", layouts, strict=True))
    of_c = quad_pair_layout("c", accumulator, "")
    name = f"tensor.quad.{'.'.join(layouts)}.{accumulator}{'.fast' if fast else ''}"
    halves = [(m, k) for m in range(8) for k in range(4)]
    outputs = [(m, n) for m in range(8) for n in range(8)]
    if accumulator == "f32":  # even columns in one register, odd ones in the next
        outputs.sort(key=lambda place: place[1] % 2)

    def body(b: Builder, ps: list[Val]) -> None:
        tables = [
            b.table(f"{name}.a", "i16", _offsets(of_a, halves, 2, 2)),
            b.table(f"{name}.b", "i16", _offsets(of_b, [(k, n) for n, k in halves], 2, 2)),
            b.table(
                f"{name}.c", "i16", _offsets(of_c, outputs, packed(accumulator), int(ty[1:]) // 8)
            ),
        ]
        small = [b.array(t, n) for t, n in (("i16", 32), ("i16", 32), (ty, 64), (ty, 64))]
        with b.loop(4) as q:
            for i, (kind, count) in enumerate((("i16", 32), ("i16", 32), (ty, 64))):
                _copy(b, kind, count, q, tables[i], ps[i], small[i], scatter=False)
            call_step(b, step, *small, fast=fast)
            _copy(b, ty, 64, q, tables[2], ps[3], small[3], scatter=True)

    b.helper(name, [("ptr", 0)] * 4, None, body)(a, bt, c, d)


def _offsets(layout: Fragment, order: list[tuple[int, int]], per: int, size: int) -> list[int]:
    """For each product and element in `order`, its byte offset among the stored registers."""
    out = []
    for q in range(4):
        lanes = (*range(4 * q, 4 * q + 4), *range(4 * q + 16, 4 * q + 20))
        place = {
            layout[slot][lane]: ((slot // per * 32 + lane) * per + slot % per) * size
            for slot in range(len(layout))
            for lane in lanes
        }
        out += [place[element] for element in order]
    return out


def _copy(
    b: Builder, ty: str, count: int, q: Val, table: Val, far: Val, near: Val, *, scatter: bool
) -> None:
    """Elements between the registers (`far`, by the table) and one product's matrix (`near`)."""
    size = int(ty[1:]) // 8
    with b.loop(count) as i:
        offset = b.load("i16", 0, b.at(table, ((q * count + i) * 2).zext("i64")))
        ends = b.at(far, offset.zext("i64")), b.at(near, (i * size).zext("i64"))
        source, target = ends[::-1] if scatter else ends
        b.store(b.load(ty, 0, source), target)
