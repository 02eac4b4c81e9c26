"""16-bit float rows: against an H200's recorded answers, and against exact integer arithmetic."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

import exact
from lanewise import check, run
from recorded import names, sample

BASES = ("add", "sub", "mul", "fma", "neg", "abs", "min", "max")
RECORDED = [n for n in names() if n.split(".")[0] in BASES and "f16" in n]
ONE = {"f16": 0x3C00, "bf16": 0x3F80}
KINDS = ("f16", "bf16")
EVERY = np.arange(1 << 16, dtype=np.uint64)


@pytest.mark.parametrize("lanes", [0, 32], ids=["scalar", "warp"])
@pytest.mark.parametrize("opcode", RECORDED)
def test_recorded(opcode: str, lanes: int) -> None:
    case = sample(opcode)
    (got,) = run(opcode, case.inputs, lanes)
    np.testing.assert_array_equal(got, case.output)


def _close_sum(rng: random.Random, kind: str) -> tuple[int, int, int]:
    """Three operands; the third often nearly cancels the product."""
    a, b, c = (rng.getrandbits(16) for _ in range(3))
    if rng.random() < 0.5:
        c = (exact.fma(a, b, 0x8000, kind) ^ 0x8000) + rng.randint(-3, 3)
    return a, b, c & 0xFFFF


def _check(opcode: str, rows: list[tuple[int, ...]], expected: list[int]) -> None:
    inputs = [np.array(column, np.uint64) for column in zip(*rows, strict=True)]
    for lanes in (0, 32):
        check(opcode, inputs, np.array(expected, np.uint64), lanes)


@pytest.mark.parametrize("kind", KINDS)
def test_fma_is_rounded_once(kind: str, seed: str) -> None:
    rng = random.Random(seed)
    rows = [_close_sum(rng, kind) for _ in range(4000)]
    expected = [exact.fma(*row, kind) for row in rows]
    _check(f"fma.rn.{kind}", rows, expected)
    packed = [tuple(v << 16 | v for v in row) for row in rows]
    _check(f"fma.rn.{kind}x2", packed, [v << 16 | v for v in expected])


@pytest.mark.parametrize(
    ("kind", "a", "b"),
    [
        ("f16", 0x2801, 0x23FE),  # just below half a unit of 1.0: f32 would round the rest away
        ("f16", 0xA801, 0x2402),
        ("bf16", 0x3F81, 0x3FC0),  # half-way between two bf16: the least addend decides
        ("bf16", 0x7F00, 0x4080),  # beyond f32 before the addend brings it back
        ("bf16", 0x0081, 0x3001),  # below f32
    ],
)
def test_fma_onto_every_number(kind: str, a: int, b: int) -> None:
    inputs = [np.full_like(EVERY, a), np.full_like(EVERY, b), EVERY]
    (got,) = run(f"fma.rn.{kind}", inputs)
    assert got.tolist() == [exact.fma(a, b, c, kind) for c in range(1 << 16)]


PAIRS: dict[str, Callable[[int, int, str], int]] = {
    "add": lambda x, y, kind: exact.fma(x, ONE[kind], y, kind),
    "sub": lambda x, y, kind: exact.fma(y, ONE[kind] | 0x8000, x, kind),
    "mul": lambda x, y, kind: exact.fma(x, y, 0x8000 if (x ^ y) & 0x8000 else 0, kind),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", list(PAIRS))
def test_two_operands(op: str, kind: str, seed: str) -> None:
    rng = random.Random(seed)
    rows = [(rng.getrandbits(16), rng.getrandbits(16)) for _ in range(2000)]
    _check(f"{op}.{kind}", rows, [PAIRS[op](x, y, kind) for x, y in rows])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", ["neg", "abs"])
def test_sign_of_every_number(op: str, kind: str) -> None:
    number = EVERY ^ np.uint64(0x8000) if op == "neg" else EVERY & np.uint64(0x7FFF)
    expected = np.where(EVERY & np.uint64(0x7FFF) > exact.infinity(kind), 0x7FFF, number)
    (got,) = run(f"{op}.{kind}", [EVERY])
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", ["min", "max"])
def test_extremes_of_every_number(op: str, kind: str) -> None:
    """Each number against its neighbour, its opposite and zero."""

    def order(bits: np.ndarray) -> np.ndarray:
        signed = bits.astype(np.uint16).view(np.int16).astype(np.int64)
        return np.where(signed < 0, -(signed & 0x7FFF) - 1, signed)

    number = EVERY[EVERY & np.uint64(0x7FFF) <= exact.infinity(kind)]
    for other in (np.roll(number, 1), number ^ np.uint64(0x8000), np.zeros_like(number)):
        first = order(number) < order(other)
        expected = np.where(first if op == "min" else ~first, number, other)
        (got,) = run(f"{op}.{kind}", [number, other])
        np.testing.assert_array_equal(got, expected)
