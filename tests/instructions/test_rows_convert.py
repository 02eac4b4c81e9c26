"""Conversion rows: against an H200's recorded answers, and against exact integer arithmetic."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

import exact
from lanewise import check, run
from recorded import GOLDEN, names, sample
from weft.errors import UnsupportedInstruction
from weft.ptx.isa import lookup

RECORDED = [n for n in names() if n.split(".")[0] == "cvt"]
EVERY = np.arange(1 << 16, dtype=np.uint64)
SIZE = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}
NARROWING = [
    ("f32", "f64"), ("f16", "f64"), ("bf16", "f64"), ("f16", "f32"), ("bf16", "f32"),
    ("f16", "bf16"), ("bf16", "f16"),
]  # fmt: skip
INTS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")


def _register(got: np.ndarray, opcode: str) -> np.ndarray:
    """A result as the register holds it: s8 is extended to 32 bits."""
    decoded = lookup(opcode.split("."))
    assert decoded is not None
    if decoded.words.get("dtype") == "s8":
        return got.view(np.int8).astype(np.int32).view(np.uint32)
    return got


@pytest.mark.parametrize("lanes", [0, 32], ids=["scalar", "warp"])
@pytest.mark.parametrize("opcode", RECORDED)
def test_recorded(opcode: str, lanes: int) -> None:
    case = sample(opcode)
    (got,) = run(opcode, case.inputs, lanes)
    np.testing.assert_array_equal(_register(got, opcode), case.output)


@pytest.mark.parametrize("kind", ["e4m3x2", "e5m2x2"])
def test_every_pair_of_bytes(kind: str) -> None:
    with np.load(GOLDEN / "half_full.npz") as archive:
        expected = archive[f"cvt.rn.f16x2.{kind}"]
    (got,) = run(f"cvt.rn.f16x2.{kind}", [EVERY])
    np.testing.assert_array_equal(got, expected)


def _numbers(kind: str) -> np.ndarray:
    """All 16-bit patterns that are not NaN."""
    return EVERY[EVERY & np.uint64(0x7FFF) <= exact.infinity(kind)]


def _values(numbers: np.ndarray, kind: str) -> np.ndarray:
    """16-bit floats as float32, which has all of them."""
    if kind == "f16":
        return numbers.astype(np.uint16).view(np.float16).astype(np.float32)
    return (numbers.astype(np.uint32) << np.uint32(16)).view(np.float32)


@pytest.mark.parametrize(
    ("dest", "source"), [("f32", "f16"), ("f64", "f16"), ("f32", "bf16"), ("f64", "bf16")]
)
def test_widening_every_number(dest: str, source: str) -> None:
    numbers, size = _numbers(source), dest[1:]
    (got,) = run(f"cvt.{dest}.{source}", [numbers])
    expected = _values(numbers, source).astype(f"float{size}").view(f"uint{size}")
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("mode", exact.MODES)
@pytest.mark.parametrize(("dest", "source"), [("bf16", "f16"), ("f16", "bf16")])
def test_crossing_every_number(dest: str, source: str, mode: str) -> None:
    numbers = _numbers(source)
    (got,) = run(f"cvt.{mode}.{dest}.{source}", [numbers])
    assert got.tolist() == [exact.convert(v, source, dest, mode) for v in numbers.tolist()]


ROUNDED = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


@pytest.mark.parametrize("mode", ROUNDED)
@pytest.mark.parametrize("source", ["f16", "bf16"])
@pytest.mark.parametrize("dest", ["s16", "u16", "s64"])
def test_every_number_to_int(dest: str, source: str, mode: str) -> None:
    numbers, width = _numbers(source), int(dest[1:])
    (got,) = run(f"cvt.{mode}.{dest}.{source}", [numbers])
    least, most = exact.limits(width, dest[0] == "s")
    whole = ROUNDED[mode](_values(numbers, source).astype(np.float64)).clip(least, most)
    expected = [min(int(v), most) & ((1 << width) - 1) for v in whole.tolist()]
    assert got.tolist() == expected


def _float(rng: random.Random, kind: str, dest: str) -> int:
    """Bits of a float, most of them in reach of `dest` and near one of its ties."""
    bits = rng.getrandbits(SIZE[kind])
    if rng.random() < 0.5:
        near = exact.convert(rng.randrange(exact.infinity(dest)), dest, kind)
        spare = max(exact.WIDTHS[kind][1] - exact.WIDTHS[dest][1], 1)
        tie = rng.choice([0, 1 << (spare - 1), 1 << spare])
        sign = (bits & 1) << sum(exact.WIDTHS[kind])
        bits = min(max(near + tie + rng.randint(-2, 2), 0), exact.infinity(kind)) | sign
    return bits if not exact.is_nan(bits, kind) else 0


DRAWN = 480
"""Values of a test, each converted as a scalar and in a warp."""


def _check(
    opcode: str, seed: str, draw: Callable[[random.Random], int], expected: Callable[[int], int]
) -> None:
    rng = random.Random(f"{seed} {opcode}")
    values = [draw(rng) for _ in range(DRAWN)]
    want = np.array([expected(v) for v in values], np.uint64)
    for lanes in (0, 32):
        check(opcode, [np.array(values, np.uint64)], want, lanes)


@pytest.mark.parametrize("mode", exact.MODES)
@pytest.mark.parametrize(("dest", "source"), NARROWING)
def test_narrowing(dest: str, source: str, mode: str, seed: str) -> None:
    _check(
        f"cvt.{mode}.{dest}.{source}",
        seed,
        lambda rng: _float(rng, source, dest),
        lambda v: exact.convert(v, source, dest, mode),
    )


@pytest.mark.parametrize("mode", exact.MODES)
@pytest.mark.parametrize("source", ["s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("dest", ["f16", "bf16", "f32", "f64"])
def test_from_int(dest: str, source: str, mode: str, seed: str) -> None:
    width, signed = int(source[1:]), source[0] == "s"

    def draw(rng: random.Random) -> int:
        """Any word, or one of few digits, next to a tie."""
        if rng.random() < 0.5:
            return rng.getrandbits(width)
        short = (rng.randrange(4096) << rng.randrange(width)) + rng.randint(-2, 2)
        return short * rng.choice([1, -1]) & ((1 << width) - 1)

    _check(
        f"cvt.{mode}.{dest}.{source}",
        seed,
        draw,
        lambda v: exact.from_int(v, width, signed, dest, mode),
    )


@pytest.mark.parametrize("mode", ROUNDED)
@pytest.mark.parametrize("source", ["f32", "f64"])
@pytest.mark.parametrize("dest", INTS)
def test_to_int(dest: str, source: str, mode: str, seed: str) -> None:
    width, signed = int(dest[1:]), dest[0] == "s"
    _check(
        f"cvt.{mode}.{dest}.{source}",
        seed,
        lambda rng: _float(rng, source, "f16"),
        lambda v: exact.to_int(v, source, mode, width, signed),
    )


@pytest.mark.parametrize(
    ("opcode", "says"),
    [("cvt.f32.f64", "must say how it rounds"), ("cvt.rni.f16.f32", "keeps the type")],
)
def test_refused(opcode: str, says: str) -> None:
    with pytest.raises(UnsupportedInstruction, match=says):
        run(opcode, [np.zeros(32, np.uint64)])
