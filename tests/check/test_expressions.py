"""Texts that are computed: what they may say, and what they can never do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import weft
from weft.measure.expressions import LARGEST, evaluate, number, whole, wholes

SIZES: dict[str, Any] = {"n": 1000, "rows": 7, "x": np.zeros((3, 5)), "t": SimpleNamespace()}
SIZES["t"].numel = lambda: 15

VALUES = [
    ("cdiv(n, 256)", 4),
    ("2*rows + n // 3 - n % 7", 14 + 333 - 6),
    ("rows**2", 49),
    ("-rows", -7),
    ("n if n > 5 and rows < 9 else 0", 1000),
    ("min(n, rows, 5) if not n == 3 else abs(-2)", 5),
    ("(n > 5) * (n <= 2000) * rows", 7),
    ("2 < rows <= 7", True),
    ("x.shape[-1] * 2", 10),
    ("t.numel() // x.ndim", 7),
    ("(cdiv(n, 32), rows) if rows else 0", (32, 7)),
    ("(*x.shape[:1], n)", (3, 1000)),
    ("x.shape[:1] + (n,)", (3, 1000)),
]


@pytest.mark.parametrize(("text", "value"), VALUES)
def test_what_a_text_is(text: str, value: object) -> None:
    assert evaluate(text, SIZES) == value
    assert evaluate(f"  {text} ", SIZES) == value


def test_sizes() -> None:
    assert whole("n / 3", SIZES) == 333 and whole(str(LARGEST), {}) == LARGEST
    assert wholes("n, rows", SIZES) == (1000, 7) and wholes("n", SIZES) == (1000,)
    assert number("n / 8", SIZES) == 125.0


REFUSED = [
    # numbers without bounds: each of these took minutes, or all memory
    ("9**9**9**9", "a power above 64"),
    ("((9**64)**64)**64", "a number above 2\\*\\*63"),
    ("2**-65", "a power above 64"),
    ("(1,) * 10**9", "a product of shapes"),
    ("x.shape * 10**9", "a product of shapes"),
    ("1" + "0" * 400, "cannot be computed from the sizes"),
    ("1e400", "cannot be computed from the sizes"),
    ("1 << 10**10", "cannot be computed from the sizes"),
    ("10**30", "is not a size\n  got: a number of 100 bits"),
    ("1 / 3 * 10**60", "is not a size"),
    # what is not arithmetic
    ("().__class__.__base__", "cannot be computed from the sizes"),
    ("x.tofile", "cannot be computed from the sizes"),
    ("__import__('os')", "cannot be computed from the sizes"),
    ("__builtins__", "cannot be computed from the sizes"),
    ("__power__(9, 9)", "cannot be computed from the sizes"),
    ("open('/etc/passwd')", "cannot be computed from the sizes"),
    ("[i for i in x]", "cannot be computed from the sizes"),
    ("lambda: 1", "cannot be computed from the sizes"),
    ("(y := 3)", "cannot be computed from the sizes"),
    ("f'{n}'", "cannot be computed from the sizes"),
    ("min(n, key=n)", "cannot be computed from the sizes"),
    ("await n", "is not an expression|cannot be computed"),
    # what cannot be read
    ("", "is not an expression"),
    ("n n", "is not an expression"),
    ("n\0", "is not an expression"),
    ("\ud800", "is not an expression"),
    ("(" * 300 + ")" * 300, "is not an expression"),
    ("-" * 1900 + "1", "nested too deeply"),
    ("n + " * 1000 + "n", "too long"),
    # what cannot be computed
    ("m", "got: m"),
    ("n // 0", "ZeroDivisionError"),
    ("x[9, 9]", "IndexError"),
    ("cdiv(n)", "TypeError"),
    ("n.shape", "AttributeError"),
    ("min", "is not a size"),
    ("(-8) ** 0.5", "is not a size"),
    ("n, rows", "is not a size"),
]


@pytest.mark.parametrize(("text", "said"), REFUSED, ids=lambda v: repr(v)[:30])
def test_what_is_refused(text: str, said: str) -> None:
    with pytest.raises(weft.ArgumentError, match=said):
        whole(text, SIZES)
