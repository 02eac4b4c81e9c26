"""`weft.quant.quantise`: bounds of the error, layouts, clipped scales, refusals."""

from __future__ import annotations

import copy
import io
import zlib
from typing import Any

import pytest

import draw
import weft
from weft.errors import ArgumentError

torch = pytest.importorskip("torch")
from weft.quant import Quantised, quantise  # noqa: E402  they need torch
from weft.quant.packing import pack, unpack  # noqa: E402
from weft.quant.scales import CLIPPED  # noqa: E402

INTEGERS = ("int8", "int4")
FLOATS = ("e4m3", "e5m2")
MANTISSA = {"e4m3": 3, "e5m2": 2}
LEAST = {"e4m3": 2.0**-9, "e5m2": 2.0**-16}
"""The smallest positive numbers, denormals: the step of numbers near 0."""
LOOSE = 1 + 2.0**-13
"""Half a scale, but for the rounding of quotients and products of up to 255 in float32."""


def drawn(seed: str, case: int) -> tuple[Any, draw.Draw]:
    """A weight whose shape, scale and signs depend on the seed and the case."""
    stream = draw.seeded(zlib.crc32(f"{seed} {case}".encode()))
    rows, groups, power = (int(stream.integers(low, high, ())) for low, high in RANGES)
    w = stream.normal(rows, 128 * groups) * 2.0**power
    w += float(stream.integers(0, 3, ())) * 2.0**power  # signs that are not balanced
    w[stream.uniform(rows) < 0.2] = 0
    return w, stream


RANGES = ((1, 9), (1, 4), (-60, 60))
"""Rows, groups of 128 columns, and the exponent of the scale."""


def spread(value: Any, scale: Any, shape: Any) -> Any:
    """Scales or zeros, one for each weight; a tensor and a block have all of the few rows."""
    rows = shape[0] if scale.shape[0] == 1 else 1
    return value.repeat_interleave(rows, 0).repeat_interleave(shape[1] // scale.shape[1], 1)


@pytest.mark.draws
@pytest.mark.parametrize("case", range(8))
@pytest.mark.parametrize("symmetric", [True, False], ids=["symmetric", "zeros"])
@pytest.mark.parametrize("format", INTEGERS)
def test_integers_are_half_a_scale_away(format: str, symmetric: bool, case: int, seed: str) -> None:
    w, _ = drawn(seed, case)
    for group in ("channel", "tensor", 32, 64, 128):
        q = quantise(w, format, group, symmetric=symmetric)
        scale = spread(q.scale, q.scale, w.shape)
        assert ((q.dequantise() - w).abs().double() <= scale.double() / 2 * LOOSE).all()
        assert (q.dequantise()[w == 0] == 0).all()  # zeros stay zeros
        low, high = (-8, 7) if format == "int4" else (-128, 127)
        assert q.integers().min() >= low and q.integers().max() <= high
        zero = 0 if q.zero is None else spread(q.zero, q.scale, w.shape)
        assert torch.equal(q.dequantise(), (q.integers().float() - zero) * scale)


@pytest.mark.draws
@pytest.mark.parametrize("case", range(8))
@pytest.mark.parametrize("format", FLOATS)
def test_floats_are_half_a_last_digit_away(format: str, case: int, seed: str) -> None:
    w, _ = drawn(seed, case)
    for group in ("channel", "tensor", 32, 128, "block"):
        q = quantise(w, format, group)
        scale = spread(q.scale, q.scale, w.shape).double()
        bound = torch.maximum(w.abs().double() * 2.0 ** -MANTISSA[format], LEAST[format] * scale)
        assert ((q.dequantise() - w).abs().double() <= bound / 2 * LOOSE).all()
        assert q.integers().float().isfinite().all()  # saturated: e4m3 has no infinity


@pytest.mark.parametrize("format", [*INTEGERS, *FLOATS])
def test_quantised_weights_stay_as_they_are(format: str) -> None:
    w = draw.seeded(1).normal(4, 64)
    once = quantise(w, format, 32)
    again = quantise(once.dequantise(), format, 32)
    assert (again.dequantise() - once.dequantise()).abs().max() <= 1e-6 * w.abs().max()


@pytest.mark.parametrize(
    ("value", "stored"),
    [(0.5, 0), (1.5, 2), (2.5, 2), (-0.5, 0), (-1.5, -2), (-2.5, -2), (3.5, 4), (-127.0, -127)],
)
def test_ties_go_to_even(value: float, stored: int) -> None:
    q = quantise(torch.tensor([[127.0, value]]), "int8")
    assert q.weight.tolist() == [[127, stored]] and q.scale.item() == 1


def test_floats_round_to_even_and_saturate() -> None:
    q = quantise(torch.tensor([[448.0, 17.0, 19.0, -448.0]]), "e4m3")
    assert q.weight.float().tolist() == [[448.0, 16.0, 20.0, -448.0]]


def test_groups_of_zeros_have_scale_1() -> None:
    w = torch.zeros(2, 64)
    w[1, 32:] = 3
    for symmetric in (True, False):
        q = quantise(w, "int4", 32, symmetric=symmetric)
        assert q.scale[0].tolist() == [1, 1] and q.scale[1, 0] == 1
        assert torch.equal(q.dequantise(), w)
    assert quantise(w, "e4m3", "block").scale.shape == (1, 1)


def test_denormal_weights_keep_the_bound() -> None:
    w = torch.tensor([[1e-40, -1e-42, 1e-45, 0.0]])
    q = quantise(w, "int8")
    assert q.scale.item() == torch.finfo(torch.float32).tiny
    assert ((q.dequantise() - w).abs() <= q.scale / 2).all()


def test_four_bits_are_packed_as_documented() -> None:
    q = torch.arange(-8, 8, dtype=torch.int8).reshape(2, 8)
    packed = pack(q)
    assert packed.dtype == torch.uint8 and packed[0].tolist() == [0x10, 0x32, 0x54, 0x76]
    assert torch.equal(unpack(packed), q)
    every = torch.arange(256, dtype=torch.uint8).reshape(4, 64)
    assert torch.equal(pack(unpack(every)), every)


@pytest.mark.parametrize(
    ("format", "group", "shapes"),
    [
        ("int8", None, ((200, 256), (200, 1))),
        ("int8", "tensor", ((200, 256), (1, 1))),
        ("int4", 64, ((200, 128), (200, 4))),
        ("e4m3", "block", ((200, 256), (2, 2))),
        ("e5m2", 128, ((200, 256), (200, 2))),
    ],
)
def test_layouts_and_sizes(format: str, group: Any, shapes: Any) -> None:
    w = draw.seeded(2).normal(200, 256)
    q = quantise(w, format, group)
    assert (tuple(q.weight.shape), tuple(q.scale.shape)) == shapes
    assert q.weight.is_contiguous() and q.scale.dtype == torch.float32 and q.zero is None
    assert q.nbytes == q.weight.numel() + 4 * q.scale.numel()
    assert q.bits == 8 * q.nbytes / w.numel()
    assert (q.shape, q.dtype, q.format) == ((200, 256), torch.float32, format)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float64"])
def test_dtypes(name: str) -> None:
    dtype = getattr(torch, name)
    w = draw.seeded(3).normal(3, 32).to(dtype)
    q = quantise(w, "int8")
    assert q.dequantise().dtype == dtype and q.dequantise(torch.float32).dtype == torch.float32
    assert torch.equal(q.weight, quantise(w.float(), "int8").weight)


def test_axis_0_is_the_transposed_weight() -> None:
    w = draw.seeded(4).normal(64, 5)
    assert quantise(w, "int4", 32, axis=0) == quantise(w.T.contiguous(), "int4", 32)
    assert quantise(w.T, "int8") == quantise(w, "int8", axis=0)  # strides do not matter


def test_state() -> None:
    w = draw.seeded(5).normal(4, 64)
    q = quantise(w, "e4m3", 32)
    assert Quantised.from_state_dict(q.state_dict()) == q == copy.deepcopy(q)
    file = io.BytesIO()
    torch.save(q.state_dict(), file)
    file.seek(0)
    assert Quantised.from_state_dict(torch.load(file)) == q
    other = quantise(w * 2, "e4m3", 32)
    assert torch.equal(other.weight.view(torch.uint8), q.weight.view(torch.uint8))
    assert other != q and q != "e4m3" and quantise(w, "int8") != quantise(w, "int8", "tensor")
    assert quantise(w, "int8", symmetric=False) != quantise(w, "int8")


# ---- clipped scales ----------------------------------------------------------------------------
def weighted(w: Any, q: Quantised, energy: Any) -> Any:
    """The error of each row, weighted by the energy of the input channels."""
    return ((q.dequantise(torch.float64) - w.double()).square() * energy.double()).sum(1)


@pytest.mark.draws
@pytest.mark.parametrize("case", range(4))
@pytest.mark.parametrize("format", [*INTEGERS, *FLOATS])
def test_clipping_is_never_worse(format: str, case: int, seed: str) -> None:
    w, stream = drawn(seed, case)
    # Squares of errors must not underflow; a weight of zeros has no exponent.
    w *= (2.0 ** -w.abs().amax().clamp(min=2.0**-100).log2().floor()).item()
    energy = stream.normal(w.shape[1]).square()
    for group in ("channel", 32):
        plain, clipped = quantise(w, format, group), quantise(w, format, group, energy=energy)
        bound = weighted(w, plain, energy)
        assert (weighted(w, clipped, energy) <= bound * (1 + 1e-4) + 1e-30).all()
        assert (clipped.scale <= plain.scale).all()
        assert (clipped.scale >= plain.scale * CLIPPED[-1] * 0.999).all()


def test_clipping_helps_where_an_outlier_has_no_input() -> None:
    w = draw.seeded(6).normal(8, 64).clamp(-2, 2)
    w[:, 7] = 4
    energy = torch.ones(64)
    energy[7] = 0
    plain, clipped = quantise(w, "int4"), quantise(w, "int4", energy=energy)
    assert weighted(w, clipped, energy).sum() < 0.5 * weighted(w, plain, energy).sum()


# ---- refusals ----------------------------------------------------------------------------------
GOOD = torch.ones(2, 64)


def bad(row: int, column: int, value: float) -> Any:
    w = torch.ones(2, 64)
    w[row, column] = value
    return w


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: quantise(GOOD, "int3"), "there is no such format of weights\n  got: 'int3'"),
        (lambda: quantise(GOOD, "int3"), "did you mean 'int"),
        (lambda: quantise(GOOD, None), "there is no such format of weights\n  got: None"),
        (lambda: quantise(GOOD, "int4", 48), "int4 weights have no such groups\n  got: group=48"),
        (lambda: quantise(GOOD, "int4", True), "int4 weights have no such groups"),
        (lambda: quantise(GOOD, "int8", "block"), "next: blocks are for e4m3 and e5m2"),
        (lambda: quantise(GOOD, "int4", 128), "does not divide the columns of the weight\n  got: "),
        (lambda: quantise(GOOD[:, :63], "int4"), "an even number of columns"),
        (lambda: quantise(GOOD, "e4m3", symmetric=False), "e4m3 weights are symmetric"),
        (lambda: quantise(GOOD, "int8", symmetric=1), "symmetric is a flag\n  got: 1"),
        (lambda: quantise(GOOD, "int8", axis=2), "axis is no dimension of a weight\n  got: 2"),
        (lambda: quantise([1.0], "int8"), "a weight is a tensor\n  got: [1.0]"),
        (lambda: quantise(GOOD.int(), "int8"), "a weight has floats\n  got: torch.int32"),
        (lambda: quantise(GOOD[0], "int8"), "a weight has rows and columns\n  got: [64]"),
        (lambda: quantise(GOOD[:0], "int8"), "a weight has rows and columns\n  got: [0, 64]"),
        (lambda: quantise(bad(1, 9, torch.nan), "int8"), "row 1, column 9: the weight has numbers"),
        (lambda: quantise(bad(0, 3, torch.inf), "e4m3"), "got: inf, one of 1"),
        (lambda: quantise(GOOD.double() * 1e300, "int8"), "not finite in float32"),
        (lambda: quantise(GOOD, "int8", energy=torch.ones(3)), "energy has another shape"),
        (lambda: quantise(GOOD, "int8", energy=1.0), "energy has another shape"),
        (lambda: quantise(GOOD, "int8", energy=-GOOD[0]), "energy has numbers that are no mean"),
        (lambda: Quantised.from_state_dict({"weight": 1}), "not the state of a quantised weight"),
        (lambda: Quantised.from_state_dict(3), "not the state of a quantised weight\n  got: 3"),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        call()
    assert message in str(raised.value)


def test_names() -> None:
    assert set(dir(weft.quant)) == set(weft.quant.__all__)
    assert all(getattr(weft.quant, name) is not None for name in weft.quant.__all__)
    with pytest.raises(AttributeError, match=r"weft\.quant has no 'quantize'; there are"):
        _ = weft.quant.quantize
