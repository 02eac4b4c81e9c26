"""Expressions of the debugger: how they are read, and what is said of mistakes."""

from __future__ import annotations

import pytest

import weft
from weft.device.sim.tools.debugger.expressions import (
    Binary,
    Index,
    Member,
    Name,
    Number,
    Unary,
    parse,
)

X, Y = Name("x"), Name("y")


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("x", X),
        ("0x1F", Number(31)),
        ("017", Number(15)),
        ("1.5f", Number(1.5)),
        ("2e3", Number(2000.0)),
        ("true", Number(1)),
        ("x + y * 2", Binary("+", X, Binary("*", Y, Number(2)))),
        ("x - y - 1", Binary("-", Binary("-", X, Y), Number(1))),
        (
            "x < 1 && y || !x",
            Binary("||", Binary("&&", Binary("<", X, Number(1)), Y), Unary("!", X)),
        ),
        ("x % 3", Binary("%", X, Number(3))),
        ("%r1 % 3", Binary("%", Name("%r1"), Number(3))),
        ("$r1", Name("%r1")),
        ("x->a[2].b", Member(Index(Member(Unary("*", X), "a"), Number(2)), "b")),
        ("-x[1]", Unary("-", Index(X, Number(1)))),
        ("(x | y) << 2", Binary("<<", Binary("|", X, Y), Number(2))),
        ("threadIdx.x == 3", Binary("==", Member(Name("threadIdx"), "x"), Number(3))),
    ],
)
def test_an_expression_is_read_as_in_cpp(text: str, node: object) -> None:
    assert parse(text) == node


@pytest.mark.parametrize(
    ("text", "what", "column", "hint"),
    [
        ("i = 3", "'=' is not expected", 2, "compare with =="),
        ("i ==", "it ends too early", 4, "C++"),
        ("(i", "')' is missing", 2, "C++"),
        ("x[1", "']' is missing", 3, "C++"),
        ("i @ 3", "'@' is no part", 2, "C++"),
        ("p.", "a name of a member is missing", 2, "C++"),
        ("-" * 100 + "x", "nested too deep", 64, "C++"),
        ("", "it ends too early", 0, "C++"),
    ],
)
def test_a_mistake_is_shown_at_its_place(text: str, what: str, column: int, hint: str) -> None:
    with pytest.raises(weft.Error) as raised:
        parse(text)
    assert what in raised.value.what
    assert raised.value.got.splitlines()[-1].index("^") == column + 5
    assert hint in raised.value.next
