"""The builder of IR: what it writes once in a block."""

from __future__ import annotations

import pytest

from weft.ir import Builder, IrFunction, IrModule, Val

pytestmark = pytest.mark.sim


def build() -> tuple[Builder, Val, Val]:
    b = Builder(IrModule(), IrFunction("f", [], "void", "#0"))
    return b, b.named("i32", 0, "%x"), b.named("ptr", 0, "%p")


def test_a_block_computes_a_result_once() -> None:
    b, x, p = build()
    first, again = x + 1, x + 1
    assert first.ref == again.ref and (x + 2).ref != first.ref
    assert b.at(p, 8).ref == b.at(p, 8).ref
    assert b.splat(x, 32).ref == b.splat(x, 32).ref
    assert len(b.fn.lines) == 5


def test_another_block_computes_it_again() -> None:
    b, x, _ = build()
    first = x + 1
    with b.when(x.eq(0)):
        inside = x + 1
    after = x + 1
    assert len({first.ref, inside.ref, after.ref}) == 3


def test_loads_are_not_results_of_their_text() -> None:
    b, x, p = build()
    before = b.load("i32", 0, p)
    b.store(x, p)
    assert b.load("i32", 0, p).ref != before.ref


def test_what_is_known_of_nans_belongs_to_a_value() -> None:
    b, _, _ = build()
    y = b.named("float", 0, "%y")
    raw, plain = b.named("float", 0, "%z"), b.named("float", 0, "%z")
    raw.raw_nan = True
    chosen = [b.select(b.named("i1", 0, "%c"), y, z) for z in (raw, plain)]
    assert chosen[0].ref == chosen[1].ref
    assert [z.raw_nan for z in chosen] == [True, False]
