"""f32 and f64 arithmetic against what an H200 answered, and against exact arithmetic."""

from __future__ import annotations

import ctypes
import json
import random
import re
import struct
from fractions import Fraction
from math import isqrt

import llvmlite.binding as llvm
import numpy as np
import pytest

from folders import TESTS
from lanewise import build, check

GOLDEN = TESTS / "golden" / "hardware"
OPS = json.loads((GOLDEN / "ops.json").read_text())
SAMPLES = np.load(GOLDEN / "scalar_samples.npz")
_BASES = "add|sub|mul|fma|div|rcp|sqrt|abs|neg|min|max|copysign"
RECORDED = [n for n in OPS if re.fullmatch(rf"({_BASES})\.(?!.*(approx|full)).*\bf(32|64)", n)]


@pytest.mark.parametrize("lanes", [32, 0], ids=["warp", "uniform"])
@pytest.mark.parametrize("name", RECORDED)
def test_matches_the_hardware(name: str, lanes: int) -> None:
    types, _ = OPS[name]
    inputs = [SAMPLES[f"in:{'+'.join(types)}:{i}"] for i in range(len(types))]
    check(name, inputs, SAMPLES[f"out:{name}"], lanes)


@pytest.mark.parametrize("name", ["mad.rn.f32", "mad.rz.ftz.f32", "mad.rp.f64"])
def test_mad_is_fma(name: str) -> None:
    fused = name.replace("mad", "fma")
    types, _ = OPS[fused]
    inputs = [SAMPLES[f"in:{'+'.join(types)}:{i}"] for i in range(len(types))]
    check(name, inputs, SAMPLES[f"out:{fused}"], 32)


OPTIMISED = [
    "sqrt.rn.f32",
    "sqrt.rz.f32",
    "add.rz.f32",
    "mul.rm.ftz.f32",
    "fma.rp.f64",
    "div.rz.f64",
]


@pytest.mark.parametrize("name", OPTIMISED)
def test_survives_the_optimiser(name: str) -> None:
    """Every pass LLVM has may neither move an operation out of its mode nor drop a NaN's choice."""
    types, _ = OPS[name]
    inputs = [SAMPLES[f"in:{'+'.join(types)}:{i}"] for i in range(len(types))]
    want = SAMPLES[f"out:{name}"]
    module = llvm.parse_assembly(build(name, 32)[0])
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(),
        opt=3, jit=True, codemodel="jitdefault",
    )  # fmt: skip
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(3))
    builder.getModulePassManager().run(module, builder)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    address = engine.get_function_address("body")
    body = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (len(inputs) + 1))(address)
    whole = len(want) // 32 * 32
    got = np.zeros_like(want)
    for at in range(0, whole, 32):
        body(*[x[at:].ctypes.data for x in (*inputs, got)])
    assert np.array_equal(got[:whole], want[:whole])


# ---- finite numbers against exact arithmetic -----------------------------------------------------
FORMATS = {"f32": (8, 23), "f64": (11, 52)}


def value(bits: int, kind: str) -> tuple[int, Fraction]:
    """Sign and value."""
    e_bits, m_bits = FORMATS[kind]
    sign, e = bits >> (e_bits + m_bits), bits >> m_bits & ((1 << e_bits) - 1)
    m = bits & ((1 << m_bits) - 1) | (1 << m_bits if e else 0)
    scale = max(e, 1) - (1 << (e_bits - 1)) + 1 - m_bits
    return sign, (-1) ** sign * m * Fraction(2) ** scale


def steps(v: Fraction, exponent: int, mode: str, negative: int) -> int:
    """v in units of 2^exponent, rounded to an integer."""
    q = v / Fraction(2) ** exponent
    down = q.numerator // q.denominator
    rest = q - down
    up = {"rz": False, "rm": negative, "rp": not negative,
          "rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and down & 1)}[mode]  # fmt: skip
    return down + bool(rest and up)


def to_bits(v: Fraction, kind: str, mode: str, ftz: bool, zero_sign: int) -> int:
    """v rounded once; a result that is tiny after rounding with unbounded exponent is flushed."""
    e_bits, m_bits = FORMATS[kind]
    bias = (1 << (e_bits - 1)) - 1
    negative = int(v < 0) if v else zero_sign
    sign, v = negative << (e_bits + m_bits), abs(v)
    if not v:
        return sign
    top = v.numerator.bit_length() - v.denominator.bit_length()
    top -= Fraction(2) ** top > v
    unbounded = steps(v, top - m_bits, mode, negative) * Fraction(2) ** (top - m_bits)
    if ftz and unbounded < Fraction(2) ** (1 - bias):
        return sign
    e = max(top, 1 - bias)
    bits = ((e + bias - 1) << m_bits) + steps(v, e - m_bits, mode, negative)
    infinite = ((1 << e_bits) - 1) << m_bits
    if bits < infinite:
        return sign | bits
    outward = mode == "rn" or mode == ("rm" if negative else "rp")
    return sign | (infinite if outward else infinite - 1)


def root(v: Fraction) -> Fraction:
    """The square root to 700 bits, with one more that tells whether it is exact."""
    scaled = v * 4**700
    low = isqrt(int(scaled))
    return Fraction(2 * low + (low * low != scaled), 2**701)


def exact(op: str, args: list[int], kind: str, mode: str, ftz: bool) -> int:
    if ftz:
        args = [a if a & 0x7F800000 else a & 0x80000000 for a in args]
    signs, vs = zip(*(value(a, kind) for a in args), strict=True)
    if op == "fma":
        total, terms = vs[0] * vs[1] + vs[2], (signs[0] ^ signs[1], signs[2])
    elif op in ("add", "sub"):
        total = vs[0] + vs[1] if op == "add" else vs[0] - vs[1]
        terms = (signs[0], signs[1] ^ (op == "sub"))
    else:
        total = {"mul": lambda: vs[0] * vs[1], "div": lambda: vs[0] / vs[1],
                 "sqrt": lambda: root(vs[0])}[op]()  # fmt: skip
        sign = signs[0] if op == "sqrt" else signs[0] ^ signs[1]
        terms = (sign, sign)
    zero = terms[0] if terms[0] == terms[1] else int(mode == "rm")
    return to_bits(total, kind, mode, ftz, zero)


def finite(rng: random.Random, kind: str) -> int:
    """Bits of a finite number, often next to where a format's rules change."""
    e_bits, m_bits = FORMATS[kind]
    last, ones = (1 << e_bits) - 2, (1 << m_bits) - 1
    near = rng.choice([0, 1, 2, 24, last // 2, last // 2 + 1, last - 1, last])
    e = rng.choice([near, rng.randint(0, last)])
    round_ = rng.choice([0, 1, 2, ones // 2 + 1, ones - 1, ones])
    m = rng.choice([round_, rng.randint(0, ones)])
    return rng.getrandbits(1) << (e_bits + m_bits) | e << m_bits | m


def near_least(rng: random.Random) -> tuple[int, int]:
    """Two f32 whose product is within a few steps of 2^-126."""
    a = rng.randint(0x20000000, 0x3F800000)
    (fa,) = struct.unpack("<f", struct.pack("<I", a))
    (b,) = struct.unpack("<I", struct.pack("<f", 2.0**-126 / fa))
    return a, max(0, b + rng.randint(-3, 3)) | rng.choice([0, 0x80000000])


MODES = ("rn", "rz", "rm", "rp")
ARITY = {"add": 2, "sub": 2, "mul": 2, "fma": 3, "div": 2, "sqrt": 1}
EACH = 64
"""Calls of an opcode, as scalars and in warps."""


def operands(rng: random.Random, op: str, kind: str) -> list[int]:
    args = [finite(rng, kind) for _ in range(ARITY[op])]
    positive = (1 << (31 if kind == "f32" else 63)) - 1
    if op == "sqrt":
        args[0] &= positive
    if op == "div":
        args[1] = max(args[1] & positive, 1 << FORMATS[kind][1])  # not zero, nor flushed to it
    return args


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("op", ARITY)
def test_rounds_exactly(op: str, kind: str, seed: str) -> None:
    rng = random.Random(f"{seed} {op} {kind}")
    for mode in MODES:
        for ftz in (False, True) if kind == "f32" else (False,):
            rows = [operands(rng, op, kind) for _ in range(EACH)]
            want = np.array([exact(op, row, kind, mode, ftz) for row in rows], np.uint64)
            inputs = [np.array(column, np.uint64) for column in zip(*rows, strict=True)]
            for lanes in (32, 0):
                check(f"{op}.{mode}{'.ftz' if ftz else ''}.{kind}", inputs, want, lanes)


@pytest.mark.parametrize("mode", MODES)
def test_flushes_after_rounding(mode: str, seed: str) -> None:
    rng = random.Random(f"{seed} {mode}")
    pairs = [near_least(rng) for _ in range(EACH)]
    inputs = [np.array(column, np.uint32) for column in zip(*pairs, strict=True)]
    want = np.array([exact("mul", list(p), "f32", mode, True) for p in pairs], np.uint32)
    addend = inputs[1] & np.uint32(0x80000000)
    for lanes in (32, 0):
        check(f"mul.{mode}.ftz.f32", inputs, want, lanes)
        check(f"fma.{mode}.ftz.f32", [*inputs, addend], want, lanes)
