"""Tensor-core rows: recorded answers of an H200 bit for bit, other forms against exact sums."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from folders import TESTS
from matrixwise import Kind, run, run_step
from tensor_model import FIELDS, step
from weft.ir.tensor_layout import WIDTH, fragment_layout, packed, quad_pair_layout, shape_of
from weft.ir.tensor_operand import TensorStep
from weft.ptx.isa import lookup

GOLDEN = TESTS / "golden" / "hardware"
SAMPLES = np.load(GOLDEN / "mma_samples.npz")
FORMS = np.load(GOLDEN / "mma_forms.npz")
"""More instructions, under their full names, and `layout:matrix:shape:type:layout`."""

TILE = "mma.sync.aligned"
RECORDED = {
    "f16_f32_k16": f"{TILE}.m16n8k16.row.col.f32.f16.f16.f32",
    "f16_f32_k8": f"{TILE}.m16n8k8.row.col.f32.f16.f16.f32",
    "f16_f16_k16": f"{TILE}.m16n8k16.row.col.f16.f16.f16.f16",
    "f16_f16_k8": f"{TILE}.m16n8k8.row.col.f16.f16.f16.f16",
    "bf16_f32_k16": f"{TILE}.m16n8k16.row.col.f32.bf16.bf16.f32",
    "bf16_f32_k8": f"{TILE}.m16n8k8.row.col.f32.bf16.bf16.f32",
    "tf32_f32_k8": f"{TILE}.m16n8k8.row.col.f32.tf32.tf32.f32",
    "tf32_f32_k4": f"{TILE}.m16n8k4.row.col.f32.tf32.tf32.f32",
    "e4m3_f32_k32": f"{TILE}.m16n8k32.row.col.f32.e4m3.e4m3.f32",
    "e4m3_f32_k16": f"{TILE}.m16n8k16.row.col.f32.e4m3.e4m3.f32",
    "e5m2_f32_k32": f"{TILE}.m16n8k32.row.col.f32.e5m2.e5m2.f32",
    "e4m3_f16_k32": f"{TILE}.m16n8k32.row.col.f16.e4m3.e4m3.f16",
    "e5m2_f16_k32": f"{TILE}.m16n8k32.row.col.f16.e5m2.e5m2.f16",
    "s8_s32_k32": f"{TILE}.m16n8k32.row.col.s32.s8.s8.s32",
    "s8_s32_k32_sat": f"{TILE}.m16n8k32.row.col.satfinite.s32.s8.s8.s32",
    "u8s8_s32_k32": f"{TILE}.m16n8k32.row.col.s32.u8.s8.s32",
    "f64_k4": f"{TILE}.m16n8k4.row.col.f64.f64.f64.f64",
    "f64_k16": f"{TILE}.m16n8k16.row.col.f64.f64.f64.f64",
}
"""Instruction of each recorded kind."""

INTEGERS = [
    f"{TILE}.{shape}.row.col{sat}.s32.{a}.{b}.s32"
    for bits, shapes in ((8, "m8n8k16 m16n8k16 m16n8k32"), (4, "m8n8k32 m16n8k32 m16n8k64"))
    for shape in shapes.split()
    for a, b in ((f"s{bits}", f"s{bits}"), (f"u{bits}", f"s{bits}"), (f"u{bits}", f"u{bits}"))
    for sat in ("", ".satfinite")
] + [
    "wmma.mma.sync.aligned.row.col.m16n16k16.s32.u8.u8.s32",
    "wmma.mma.sync.aligned.col.row.m32n8k16.s32.s8.s8.s32.satfinite",
    "wmma.mma.sync.aligned.row.row.m8n32k16.s32.s8.u8.s32",
    "wmma.mma.sync.aligned.row.col.m8n8k32.s32.s4.u4.s32",
]
BITS = [
    f"{TILE}.{shape}.row.col.s32.b1.b1.s32.{op}.popc"
    for shape in ("m8n8k128", "m16n8k128", "m16n8k256")
    for op in ("xor", "and")
] + ["wmma.mma.xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32"]
FLOATS = [
    f"wmma.mma.sync.aligned.row.col.{shape}.{types}"
    for shape in ("m16n16k16", "m32n8k16", "m8n32k16")
    for types in ("f32.f32", "f16.f16", "f32.f16", "f32.bf16.bf16.f32")
]
DOUBLES = [
    f"{TILE}.{shape}.row.col.f64.f64.f64.f64.rn"
    for shape in ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16")
] + ["wmma.mma.sync.aligned.row.col.m8n8k4.f64.f64.f64.f64.rn"]


def words(x: np.ndarray) -> np.ndarray:
    return x.view(np.uint64) if x.dtype == np.int64 else x


@pytest.mark.parametrize("kind", RECORDED)
def test_recorded(kind: str) -> None:
    keys = [k[:-1] for k in SAMPLES.files if k.startswith(kind + ":") and k.endswith(":A")]
    assert keys
    for key in keys:
        a, b, c, d = (words(SAMPLES[key + m]) for m in "ABCD")
        for tile in range(len(a)):
            got = run(RECORDED[kind], a[tile], b[tile].T, c[tile])
            wrong = np.argwhere(got != d[tile])
            assert wrong.size == 0, f"{key} tile {tile}: {len(wrong)} wrong, first at {wrong[0]}"


WARPGROUP = {
    "wg_f16_f32": TensorStep("f16", "f32", 16, 16),
    "wg_f16_f16": TensorStep("f16", "f16", 16, 16),
    "wg_bf16_f32": TensorStep("bf16", "f32", 16, 16),
    "wg_tf32_f32": TensorStep("tf32", "f32", 16, 8),
    "wg_e4m3_f32": TensorStep("e4m3", "f32", 16, 32, fraction=13, out_mantissa=13),
    "wg_e4m3_f16": TensorStep("e4m3", "f16", 16, 32, fraction=13, out_mantissa=13),
    "wg_e5m2_f32": TensorStep("e5m2", "f32", 16, 32, fraction=13, out_mantissa=13),
    "wg_e5m2_f16": TensorStep("e5m2", "f16", 16, 32, fraction=13, out_mantissa=13),
}
"""The step of each recorded wgmma; on fp8 its adder is narrower."""


@pytest.mark.parametrize("kind", WARPGROUP)
def test_recorded_warpgroup_steps(kind: str) -> None:
    for key in (k[:-1] for k in SAMPLES.files if k.startswith(kind + ":") and k.endswith(":A")):
        a, b, c, d = (SAMPLES[key + m] for m in "ABCD")
        for tile in range(len(a)):
            got = run_step(WARPGROUP[kind], a[tile], b[tile], c[tile])
            assert (got == d[tile]).all(), f"{key} tile {tile}"


@pytest.mark.parametrize("opcode", [k[:-2] for k in FORMS.files if k.endswith(":A")])
def test_recorded_forms(opcode: str) -> None:
    a, b, c, d = (FORMS[f"{opcode}:{m}"] for m in "ABCD")
    for tile in range(len(a)):
        wrong = np.argwhere(run(opcode, a[tile], b[tile], c[tile]) != d[tile])
        assert wrong.size == 0, f"tile {tile}: {len(wrong)} wrong, first at {wrong[0]}"


@pytest.mark.parametrize("key", [k for k in FORMS.files if k.startswith("layout:")])
def test_recorded_layouts(key: str) -> None:
    """An H200's `wmma.load` puts every element where our table does."""
    _, matrix, shape, kind, layout = key.split(":")
    np.testing.assert_array_equal(fragment_layout(matrix, shape, kind, layout), FORMS[key])


# ---- exact sums ----------------------------------------------------------------------------------
def product(kind: Kind, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """D by `step`; accumulators of mixed format are f32 inside."""
    w = kind.words
    acc = "f32" if "f32" in (w["c"], w["d"]) else "f16"
    if w["c"] == "f16" and acc == "f32":
        c = c.astype(np.uint16).view(np.float16).astype(np.float32).view(np.uint32)
    out = np.zeros(c.shape, np.uint32)
    for i, j in np.ndindex(*c.shape):
        row, col = [int(v) for v in a[i]], [int(v) for v in b[:, j]]
        out[i, j] = step(row, col, int(c[i, j]), w["a"], acc)
    return out


def random_floats(
    rng: np.random.Generator, shape: tuple[int, ...], kind: str, spread: int
) -> np.ndarray:
    """Finite numbers of random sign and mantissa around 1, with zeros and subnormals among them."""
    e, m = FIELDS[kind]
    field = rng.integers(-spread, spread + 1, shape) + (1 << e - 1) - 1
    field = np.clip(field, 0, (1 << e) - 2) * (rng.random(shape) > 0.1)
    x = (rng.integers(0, 2, shape) << e | field) << m | rng.integers(0, 1 << m, shape)
    x = np.where(rng.random(shape) < 0.1, 0, x)
    return (x << 13 | rng.integers(0, 1 << 13, shape) if kind == "tf32" else x).astype(np.uint32)


def shapes(kind: Kind) -> list[tuple[int, ...]]:
    m, n, k = shape_of(kind.words["shape"])
    return [(m, k), (k, n), (m, n)]


@pytest.mark.parametrize("opcode", FLOATS)
def test_float_forms(opcode: str) -> None:
    kind, rng = Kind(opcode), np.random.default_rng(7)
    for spread in (2, 9):
        a, b, c = (
            random_floats(rng, s, kind.words[m], spread)
            for m, s in zip("abc", shapes(kind), strict=True)
        )
        np.testing.assert_array_equal(run(opcode, a, b, c), product(kind, a, b, c))


def signed(x: np.ndarray, kind: str) -> np.ndarray:
    bits = int(kind[1:])
    return x - (x >> (bits - 1) << bits) if kind[0] == "s" else x


@pytest.mark.parametrize("opcode", INTEGERS)
def test_integer_forms(opcode: str) -> None:
    kind, rng = Kind(opcode), np.random.default_rng(8)
    bits = WIDTH[kind.words["a"]]
    sa, sb, sc = shapes(kind)
    a, b = rng.integers(0, 1 << bits, sa), rng.integers(0, 1 << bits, sb)
    c = rng.integers(0, 1 << 32, sc) | 0x7FFF0000  # close to both ends, so that many overflow
    total = signed(a, kind.words["a"]) @ signed(b, kind.words["b"]) + signed(c, "s32")
    if "satfinite" in opcode:
        total = np.clip(total, -(1 << 31), (1 << 31) - 1)
    np.testing.assert_array_equal(run(opcode, a, b, c), total & 0xFFFFFFFF)


@pytest.mark.parametrize("opcode", BITS)
def test_bit_forms(opcode: str) -> None:
    kind, rng = Kind(opcode), np.random.default_rng(9)
    sa, sb, sc = shapes(kind)
    a, b, c = rng.integers(0, 2, sa), rng.integers(0, 2, sb), rng.integers(0, 1 << 32, sc)
    x, y = a[:, None, :], b.T[None, :, :]
    ones = (x ^ y if "xor" in opcode else x & y).sum(-1)
    np.testing.assert_array_equal(run(opcode, a, b, c), (c + ones) & 0xFFFFFFFF)


@pytest.mark.parametrize("opcode", DOUBLES)
def test_double_forms(opcode: str) -> None:
    """On numbers whose products and sums are exact, so that any right order agrees."""
    kind, rng = Kind(opcode), np.random.default_rng(10)
    a, b, c = (rng.integers(-999, 999, s).astype(np.float64) for s in shapes(kind))
    got = run(opcode, *(x.view(np.uint64) for x in (a, b, c)))
    np.testing.assert_array_equal(got.view(np.float64), a @ b + c)


def test_double_rounds_each_fma_in_its_mode() -> None:
    third, opcode = 1 / 3, "wmma.mma.sync.aligned.row.col.m8n8k4.f64.f64.f64.f64."
    a, b = np.full((8, 4), third), np.full((4, 8), third)
    got = {
        mode: run(opcode + mode, *(x.view(np.uint64) for x in (a, b, np.ones((8, 8)))))[0, 0]
        for mode in ("rm", "rn", "rp", "rz")
    }
    assert got["rm"] == got["rz"] < got["rp"] and got["rm"] <= got["rn"] <= got["rp"]


@pytest.mark.parametrize("kind", ["f16_f32_k16", "bf16_f32_k16", "tf32_f32_k8", "f16_f16_k16"])
def test_fast_is_close(kind: str) -> None:
    rng, form = np.random.default_rng(11), Kind(RECORDED[kind])
    a, b, c = (
        random_floats(rng, s, form.words[m], 3) for m, s in zip("abc", shapes(form), strict=True)
    )
    as_f32 = {
        "f16": lambda x: x.astype(np.uint16).view(np.float16).astype(np.float64),
        "bf16": lambda x: (x << 16).astype(np.uint32).view(np.float32).astype(np.float64),
        "tf32": lambda x: (x & 0xFFFFE000).astype(np.uint32).view(np.float32).astype(np.float64),
        "f32": lambda x: x.astype(np.uint32).view(np.float32).astype(np.float64),
    }
    fa, fb, fc = (as_f32[form.words[m]](x) for m, x in zip("abc", (a, b, c), strict=True))
    got = as_f32[form.words["d"]](run(form.opcode, a, b, c, fast=True))
    scale = np.abs(fa) @ np.abs(fb) + np.abs(fc)
    limit = 2.0**-10 if form.words["d"] == "f16" else 2.0**-20
    assert (np.abs(got - (fa @ fb + fc)) <= limit * scale).all()


# ---- layouts -------------------------------------------------------------------------------------
WMMA_REGISTERS = [  # the manual's counts of registers for A, B, and C
    ("m16n16k16", "f16", 8, 8, 4, "f16"), ("m32n8k16", "f16", 8, 8, 8, "f32"),
    ("m8n32k16", "f16", 8, 8, 8, "f32"), ("m16n16k16", "bf16", 4, 4, 8, "f32"),
    ("m32n8k16", "bf16", 8, 2, 8, "f32"), ("m8n32k16", "bf16", 2, 8, 8, "f32"),
    ("m16n16k8", "tf32", 4, 4, 8, "f32"), ("m16n16k16", "s8", 2, 2, 8, "s32"),
    ("m32n8k16", "u8", 4, 1, 8, "s32"), ("m8n32k16", "u8", 1, 4, 8, "s32"),
    ("m8n8k4", "f64", 1, 1, 2, "f64"), ("m8n8k32", "s4", 1, 1, 2, "s32"),
    ("m8n8k128", "b1", 1, 1, 2, "s32"),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "kind", "a", "b", "c", "acc"), WMMA_REGISTERS)
def test_wmma_fragments_have_the_registers_of_the_manual(
    shape: str, kind: str, a: int, b: int, c: int, acc: str
) -> None:
    m, n, k = shape_of(shape)
    for matrix, count, types, size in (
        ("a", a, kind, m * k),
        ("b", b, kind, k * n),
        ("c", c, acc, m * n),
    ):
        layout = fragment_layout(matrix, shape, types, "row")
        assert len(layout) == count * packed(types)
        held = Counter(place for lanes in layout for place in lanes)
        assert len(held) == size and len(set(held.values())) == 1


@pytest.mark.parametrize("kind", ["f16", "f32"])
def test_each_quad_pair_holds_its_matrices_once(kind: str) -> None:
    for matrix, layout in (("a", "row"), ("a", "col"), ("b", "row"), ("b", "col"), ("c", "")):
        table = quad_pair_layout(matrix, kind if matrix == "c" else "f16", layout)
        for q in range(4):
            lanes = [*range(4 * q, 4 * q + 4), *range(4 * q + 16, 4 * q + 20)]
            held = Counter(table[slot][lane] for slot in range(len(table)) for lane in lanes)
            assert len(held) == math.prod({"a": (8, 4), "b": (4, 8), "c": (8, 8)}[matrix])
            assert set(held.values()) == {1}


@pytest.mark.parametrize(
    "opcode",
    [
        f"{TILE}.m16n8k16.row.col.f32.f16.bf16.f32",
        f"{TILE}.m16n8k4.row.col.f32.f16.f16.f32",
        f"{TILE}.m16n8k16.col.col.f32.f16.f16.f32",
        "wmma.mma.sync.aligned.row.col.m16n16k8.f32.f32",
    ],
)
def test_forms_that_do_not_exist(opcode: str) -> None:
    assert lookup(opcode.split(".")) is None
