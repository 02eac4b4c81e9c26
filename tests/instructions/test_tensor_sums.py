"""Tensor-core sums against a model in integers, on operands that are hard to sum."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft
from matrixwise import Kind, pack, run_step, unpack
from tensor_model import FIELDS, step
from weft.ir.tensor_operand import TensorStep

Draw = Callable[[np.random.Generator, tuple[int, ...], str], np.ndarray]
STEPS = {
    "f16": TensorStep("f16", "f32", 16, 16),
    "bf16": TensorStep("bf16", "f32", 16, 16),
    "tf32": TensorStep("tf32", "f32", 16, 8),
    "f16 in f16": TensorStep("f16", "f16", 16, 16),
    "bf16 k8": TensorStep("bf16", "f32", 16, 8),
}
TILES = 4


def _number(rng: np.random.Generator, shape: tuple[int, ...], kind: str, low: int, high: int):
    """Random signs and mantissas, exponent fields from `low` to `high`."""
    e, m = FIELDS[kind]
    field = np.clip(rng.integers(low, high + 1, shape), 0, (1 << e) - 2)
    x = (rng.integers(0, 2, shape) << e | field) << m | rng.integers(0, 1 << m, shape)
    return (x << 13 | rng.integers(0, 1 << 13, shape) if kind == "tf32" else x).astype(np.uint32)


def _around_one(spread: int) -> Draw:
    def draw(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> np.ndarray:
        middle = (1 << FIELDS[kind][0] - 1) - 1
        return _number(rng, shape, kind, middle - spread, middle + spread)

    return draw


def _any_size(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> np.ndarray:
    return _number(rng, shape, kind, 0, (1 << FIELDS[kind][0]) - 2)


def _denormal(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> np.ndarray:
    return _number(rng, shape, kind, 0, 1) * (rng.random(shape) < 0.8).astype(np.uint32)


def _large(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> np.ndarray:
    top = (1 << FIELDS[kind][0]) - 2
    return _number(rng, shape, kind, top - 3, top)


def _raw(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> np.ndarray:
    e, m = FIELDS[kind]
    return rng.integers(0, 1 << 32 if kind == "tf32" else 1 << 1 + e + m, shape, np.uint32)


def _with_specials(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> np.ndarray:
    e, m = FIELDS[kind]
    inf = ((1 << e) - 1) << m << (13 if kind == "tf32" else 0)
    x = _around_one(3)(rng, shape, kind)
    x = np.where(rng.random(shape) < 0.005, inf | x & (1 << 31 if kind == "tf32" else 0), x)
    x = np.where(rng.random(shape) < 0.002, inf | 1 << m - 1 << (13 if kind == "tf32" else 0), x)
    return x.astype(np.uint32)


CASES: dict[str, tuple[Draw, Draw, Draw]] = {
    "near one": (_around_one(1),) * 3,
    "some binades": (_around_one(6),) * 3,
    "many binades": (_around_one(14),) * 3,
    "any size": (_any_size,) * 3,
    "denormal A, any B": (_denormal, _any_size, _denormal),
    "denormal": (_denormal,) * 3,
    "around overflow": (_large, _around_one(2), _large),
    "large C": (_around_one(2), _around_one(2), _large),
    "any C": (_around_one(2), _around_one(2), _any_size),
    "infinities and NaNs": (_with_specials, _around_one(3), _with_specials),
    "all bits": (_raw,) * 3,
}


def expected(s: TensorStep, a: np.ndarray, bt: np.ndarray, c: np.ndarray) -> np.ndarray:
    out = np.zeros(c.shape, np.uint32)
    for i, j in np.ndindex(*c.shape):
        row, col = [int(v) for v in a[i]], [int(v) for v in bt[j]]
        out[i, j] = step(row, col, int(c[i, j]), s.operand, s.accumulator)
    return out


def words(x: np.ndarray, kind: str) -> np.ndarray:
    return x.astype(np.uint16 if kind in ("f16", "bf16") else np.uint32)


@pytest.mark.parametrize("name", STEPS)
def test_sums_are_those_of_the_model(name: str, request: pytest.FixtureRequest) -> None:
    s = STEPS[name]
    for case, draws in CASES.items():
        for seed in range(TILES):
            rng = np.random.default_rng([seed, len(case)])
            shapes = ((s.rows, s.depth), (8, s.depth), (s.rows, 8))
            kinds = (s.operand, s.operand, s.accumulator)
            a, bt, c = (d(rng, n, k) for d, n, k in zip(draws, shapes, kinds, strict=True))
            if seed % 2:  # products in pairs of opposite sign: what is left of them is cut
                half, sign = s.depth // 2, 1 << (31 if s.operand == "tf32" else 15)
                a[:, half:], bt[:, half:] = a[:, :half] ^ sign, bt[:, :half]
            got = run_step(s, *(words(x, k) for x, k in zip((a, bt, c), kinds, strict=True)))
            wrong = np.argwhere(got != expected(s, a, bt, c))
            assert not wrong.size, f"{name}, {case}, seed {seed}: {len(wrong)} wrong, {wrong[0]}"
            if seed == 3:  # with C = -D nearly everything cancels
                flipped = got ^ (0x8000 if s.accumulator == "f16" else 0x80000000)
                c = flipped.astype(np.uint32)
                got = run_step(s, *(words(x, k) for x, k in zip((a, bt, c), kinds, strict=True)))
                assert (got == expected(s, a, bt, c)).all(), f"{name}, {case}, seed {seed}: -D"


SHARED = r"""
__device__ void mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
extern "C" __global__ void shared(const unsigned* A, const unsigned* B, float* D, int n, int skip) {
    unsigned a[2][4], b[6][2];
    for (int i = 0; i < 8; ++i) a[i / 4][i % 4] = A[i * 32 + threadIdx.x];
    for (int i = 0; i < 12; ++i) b[i / 2][i % 2] = B[i * 32 + threadIdx.x];
    float d[14][4] = {};
    for (int k = 0; k < n; ++k) {
        for (int j = 0; j < 6; ++j) mma(d[j], a[0], b[j]);         // more of B than are kept
        for (int j = 0; j < 6; ++j) mma(d[6 + j], a[1], b[j]);     // each of them again
        a[0][k % 2] ^= 0x80008000;                                 // A changes in a register
        mma(d[12], a[0], b[0]);
        if (k != skip) mma(d[13], a[1], b[k % 6]);                 // under a guard
    }
    for (int i = 0; i < 56; ++i) D[i * 32 + threadIdx.x] = d[i / 4][i % 4];
}
"""


def test_fragments_are_prepared_anew_when_they_change() -> None:
    kind, rng = Kind("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"), np.random.default_rng(3)
    a, b = rng.integers(-4, 5, (2, 16, 16)), rng.integers(-4, 5, (6, 16, 8))
    registers = [
        np.concatenate([pack(kind, m, x.astype(np.float16).view(np.uint16)) for x in xs])
        for m, xs in (("a", a), ("b", b))
    ]
    out, turns, skip = np.zeros(56 * 32, np.float32), 3, 1
    weft.cuda(SHARED).shared[1, 32](*registers, out, turns, skip)
    got = [unpack(kind, d.view(np.uint32), (16, 8)) for d in out.reshape(14, 4 * 32)]
    x, wanted = a.astype(np.int64).copy(), np.zeros((14, 16, 8), np.int64)
    for k in range(turns):
        for j in range(6):
            wanted[j] += x[0] @ b[j]
            wanted[6 + j] += x[1] @ b[j]
        rows = slice(8 * (k % 2), 8 * (k % 2) + 8)  # registers 0 and 1 hold k below 8
        x[0, rows, :8] *= -1
        wanted[12] += x[0] @ b[0]
        wanted[13] += (k != skip) * (x[1] @ b[k % 6])
    for i in range(14):
        np.testing.assert_array_equal(got[i].astype(np.uint32).view(np.float32), wanted[i], str(i))


CHAINED = r"""
struct Sum { float v[4]; };
__device__ Sum mma(const Sum& c, const unsigned* a, const unsigned* b) {
    Sum d;
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%10,%11,%12,%13};"
        : "=f"(d.v[0]), "=f"(d.v[1]), "=f"(d.v[2]), "=f"(d.v[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]),
          "f"(c.v[0]), "f"(c.v[1]), "f"(c.v[2]), "f"(c.v[3]));
    return d;
}
extern "C" __global__ void chained(const unsigned* A, const unsigned* B, float* D, int n) {
    unsigned a[2][4], b[20][2];
    for (int i = 0; i < 8; ++i) a[i / 4][i % 4] = A[i * 32 + threadIdx.x];
    for (int i = 0; i < 40; ++i) b[i / 2][i % 2] = B[i * 32 + threadIdx.x];
    Sum d[20] = {}, first = {}, both[2] = {};
    for (int k = 0; k < n; ++k) {
        for (int j = 0; j < 20; ++j) d[j] = mma(d[j], a[0], b[j]);  // more than are kept
        for (int j = 0; j < 20; ++j) d[j] = mma(d[j], a[1], b[j]);
        first = d[19];                                              // read by others too
        d[19] = mma(d[19], a[0], b[0]);
        d[19].v[k % 4] += 1;                                        // one register changes
        d[19] = mma(d[19], a[1], b[1]);
        Sum two = mma(d[18], a[0], b[2]);
        both[0] = mma(two, a[0], b[3]);                             // the same addend twice
        both[1] = mma(two, a[1], b[4]);
    }
    for (int i = 0; i < 80; ++i) D[i * 32 + threadIdx.x] = d[i / 4].v[i % 4];
    for (int i = 0; i < 4; ++i) {
        D[(80 + i) * 32 + threadIdx.x] = first.v[i];
        D[(84 + i) * 32 + threadIdx.x] = both[0].v[i];
        D[(88 + i) * 32 + threadIdx.x] = both[1].v[i];
    }
}
"""


@pytest.mark.parametrize("threads", [32, 64])
def test_sums_are_the_addends_of_other_products(threads: int) -> None:
    kind, rng = Kind("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"), np.random.default_rng(4)
    a, b = rng.integers(-4, 5, (2, 16, 16)), rng.integers(-4, 5, (20, 16, 8))
    registers = [
        np.concatenate([pack(kind, m, x.astype(np.float16).view(np.uint16)) for x in xs])
        for m, xs in (("a", a), ("b", b))
    ]
    out, turns = np.zeros(92 * 32, np.float32), 3
    text = CHAINED.replace("threadIdx.x", "(threadIdx.x % 32)")  # warps in turn, the same work
    weft.cuda(text).chained[1, threads](*registers, out, turns)
    got = [unpack(kind, d.view(np.uint32), (16, 8)) for d in out.reshape(23, 4 * 32)]
    wanted, one = np.zeros((23, 16, 8), np.int64), np.zeros((4, 16, 8), np.int64)
    for i in range(4):  # what adding 1 to a register of all lanes adds
        bits = np.zeros((4, 32), np.float32)
        bits[i] = 1
        one[i] = unpack(kind, bits.view(np.uint32).ravel(), (16, 8)).astype(np.uint32).view("f4")
    for k in range(turns):
        wanted[:20] += a[0] @ b + a[1] @ b
        wanted[20] = wanted[19]
        wanted[19] += a[0] @ b[0] + one[k % 4] + a[1] @ b[1]
        two = wanted[18] + a[0] @ b[2]
        wanted[21], wanted[22] = two + a[0] @ b[3], two + a[1] @ b[4]
    for i in range(23):
        np.testing.assert_array_equal(got[i].astype(np.uint32).view(np.float32), wanted[i], str(i))
