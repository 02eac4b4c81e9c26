"""Conversion rows: against an H200's recorded answers, and against exact integer arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import exact
from lanewise import run
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


@pytest.mark.parametrize(
    ("dest", "source"),
    [("f32", "f16"), ("f64", "f16"), ("f32", "bf16"), ("f64", "bf16")],
)
def test_widening_every_number(dest: str, source: str) -> None:
    numbers = _numbers(source)
    (got,) = run(f"cvt.{dest}.{source}", [numbers])
    assert got.tolist() == [exact.convert(v, source, dest) for v in numbers.tolist()]


@pytest.mark.parametrize("mode", exact.MODES)
@pytest.mark.parametrize(("dest", "source"), [("bf16", "f16"), ("f16", "bf16")])
def test_crossing_every_number(dest: str, source: str, mode: str) -> None:
    numbers = _numbers(source)
    (got,) = run(f"cvt.{mode}.{dest}.{source}", [numbers])
    assert got.tolist() == [exact.convert(v, source, dest, mode) for v in numbers.tolist()]


@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
@pytest.mark.parametrize("source", ["f16", "bf16"])
@pytest.mark.parametrize("dest", ["s16", "u16", "s64"])
def test_every_number_to_int(dest: str, source: str, mode: str) -> None:
    numbers, width = _numbers(source), int(dest[1:])
    (got,) = run(f"cvt.{mode}.{dest}.{source}", [numbers])
    expected = [exact.to_int(v, source, mode, width, dest[0] == "s") for v in numbers.tolist()]
    assert got.tolist() == expected


@st.composite
def floats(draw: st.DrawFn, kind: str, dest: str) -> int:
    """Bits of a float, most of them in reach of `dest` and near one of its ties."""
    bits = draw(st.integers(0, (1 << SIZE[kind]) - 1))
    if draw(st.booleans()):
        near = exact.convert(draw(st.integers(0, exact.infinity(dest) - 1)), dest, kind)
        spare = max(exact.WIDTHS[kind][1] - exact.WIDTHS[dest][1], 1)
        tie = draw(st.sampled_from([0, 1 << (spare - 1), 1 << spare]))
        sign = (bits & 1) << sum(exact.WIDTHS[kind])
        bits = min(max(near + tie + draw(st.integers(-2, 2)), 0), exact.infinity(kind)) | sign
    return bits if not exact.is_nan(bits, kind) else 0


def _check(opcode: str, values: list[int], expected: list[int]) -> None:
    for lanes in (0, 32):
        (got,) = run(opcode, [np.array(values, np.uint64)], lanes)
        assert [hex(v) for v in got] == [hex(v) for v in expected]


@pytest.mark.parametrize("mode", exact.MODES)
@pytest.mark.parametrize(("dest", "source"), NARROWING)
def test_narrowing(dest: str, source: str, mode: str) -> None:
    @settings(max_examples=15, deadline=None)
    @given(st.lists(floats(source, dest), min_size=32, max_size=32))
    def check(values: list[int]) -> None:
        expected = [exact.convert(v, source, dest, mode) for v in values]
        _check(f"cvt.{mode}.{dest}.{source}", values, expected)

    check()


@pytest.mark.parametrize("mode", exact.MODES)
@pytest.mark.parametrize("source", ["s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("dest", ["f16", "bf16", "f32", "f64"])
def test_from_int(dest: str, source: str, mode: str) -> None:
    width, signed = int(source[1:]), source[0] == "s"
    word = st.integers(0, (1 << width) - 1)
    short = st.builds(
        lambda v, n, d, s: ((v << n) + d) * s & ((1 << width) - 1),
        st.integers(0, 4095), st.integers(0, width - 1), st.integers(-2, 2),
        st.sampled_from([1, -1]),
    )  # fmt: skip

    @settings(max_examples=10, deadline=None)
    @given(st.lists(word | short, min_size=32, max_size=32))
    def check(values: list[int]) -> None:
        expected = [exact.from_int(v, width, signed, dest, mode) for v in values]
        _check(f"cvt.{mode}.{dest}.{source}", values, expected)

    check()


@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
@pytest.mark.parametrize("source", ["f32", "f64"])
@pytest.mark.parametrize("dest", INTS)
def test_to_int(dest: str, source: str, mode: str) -> None:
    width, signed = int(dest[1:]), dest[0] == "s"

    @settings(max_examples=8, deadline=None)
    @given(st.lists(floats(source, "f16"), min_size=32, max_size=32))
    def check(values: list[int]) -> None:
        expected = [exact.to_int(v, source, mode, width, signed) for v in values]
        _check(f"cvt.{mode}.{dest}.{source}", values, expected)

    check()


@pytest.mark.parametrize(
    ("opcode", "says"),
    [
        ("cvt.f32.f64", "must say how it rounds"),
        ("cvt.rni.f16.f32", "keeps the type"),
    ],
)
def test_refused(opcode: str, says: str) -> None:
    with pytest.raises(UnsupportedInstruction, match=says):
        run(opcode, [np.zeros(32, np.uint64)])
