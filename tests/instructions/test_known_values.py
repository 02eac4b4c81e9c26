"""Kernels whose results were wrong because more was taken to be known than is so."""

from __future__ import annotations

import numpy as np
import pytest

import weft

HEAD = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 o) {
.reg .pred %p<3>; .reg .b16 %h<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<3>; .reg .f64 %d;
.local .align 16 .b8 own[64];
ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [o]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4;
add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd3; ld.global.u32 %r2, [%rd1];
"""
LANES = np.arange(32, dtype=np.uint32)
X = 0xF1234567
FLOATS = LANES.astype(np.float32)
CASES = {
    "bits of a float made from an index": (
        "cvt.rn.f32.u32 %f1, %r1; mov.b32 %r4, %f1; shr.u32 %r3, %r4, 23;",
        FLOATS.view(np.uint32) >> 23,
    ),
    "bits of a double made from an index": (
        "cvt.rn.f64.u32 %d, %r1; mov.b64 %rd4, %d; shr.u64 %rd5, %rd4, 52; cvt.u32.u64 %r3, %rd5;",
        FLOATS.astype(np.float64).view(np.uint64) >> 52,
    ),
    "a bound with the sign bit set": (
        "and.b32 %r4, %r2, 0xF0000000; min.s32 %r3, %r4, 0;",
        0xF0000000,
    ),
    "the largest of such bounds": (
        "and.b32 %r4, %r2, 0xF0000000; max.s32 %r5, %r4, 5; shr.s32 %r3, %r5, 28;",
        0,
    ),
    "a signed byte of a constant": (
        "mov.u16 %h1, 15561; cvt.s8.s8 %h2, %h1; cvt.u32.u16 %r3, %h2;",
        0xFFC9,
    ),
    "a byte of a constant": ("mov.u16 %h1, 15561; cvt.u8.u8 %h2, %h1; cvt.u32.u16 %r3, %h2;", 0xC9),
    "a decimal beyond the largest float": ("mov.f32 %f1, 1e308; mov.b32 %r3, %f1;", 0x7F800000),
    "a constant beyond the type": ("div.u32 %r3, %r1, 4294967299;", LANES // 3),
    "two numbers in one register": (
        "shl.b32 %r4, %r1, 15; or.b32 %r5, %r4, 0x8000; add.u16x2 %r3, %r5, %r5;",
        (lambda v: (v + v & 0xFFFF) | ((v >> 16) * 2 << 16))(LANES << 15 | 0x8000),
    ),
    "lanes that wrap, compared": (
        "mul.lo.u32 %r4, %r1, 138547333; mov.u32 %r3, 1; setp.lt.u32 %p1, %r4, 100; "
        "@%p1 bra DONE; mov.u32 %r3, 2; DONE:",
        np.where(LANES * np.uint32(138547333) < 100, 1, 2),
    ),
    "lanes that are 0, times an index, plus an index": (
        "and.b32 %r4, %r2, 0; mad.lo.u32 %r3, %r4, %r1, %r1; setp.gt.u32 %p1, %r1, 4; "
        "@%p1 mov.u32 %r3, 7;",
        np.where(LANES > 4, 7, LANES),
    ),
    "the generic address of an index into local memory": (
        "st.local.u32 [own], %r1; sub.u32 %r4, %r2, %r2; cvt.u64.u32 %rd4, %r4; "
        "cvta.local.u64 %rd5, %rd4; ld.u32 %r3, [%rd5];",
        LANES,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_value(name: str) -> None:
    body, wanted = CASES[name]
    out = np.zeros(32, np.uint32)
    text = HEAD + body + " st.global.u32 [%rd2], %r3; ret; }"
    weft.load_ptx(text).k[1, 32](np.full(32, X, np.uint32), out)
    assert out.tolist() == np.broadcast_to(np.asarray(wanted).astype(np.uint32), 32).tolist()


# ---- lanes that meet after some of them have spun ------------------------------------------------
SPIN = """
setp.ge.u32 %p1, %r1, 16; @%p1 bra JOIN; mov.u32 %r4, 0;
LOOP: ld.volatile.global.u32 %r5, [%rd1]; add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, {turns};
@%p2 bra LOOP; add.u32 %r2, %r2, 0x00050007;
JOIN: {op} st.global.u32 [%rd2], %r3; ret; }}
"""
TOGETHER = {
    "movmatrix": "movmatrix.sync.aligned.m8n8.trans.b16 %r3, %r2;",
    "setmaxnreg": "setmaxnreg.inc.sync.aligned.u32 32; shfl.sync.bfly.b32 %r3, %r2, 31, 31, -1;",
    "shfl": "shfl.sync.bfly.b32 %r3, %r2, 31, 31, -1;",
    "redux": "redux.sync.add.u32 %r3, %r2, -1;",
    "vote": "setp.gt.u32 %p1, %r2, 20; vote.sync.ballot.b32 %r3, %p1, -1;",
    "match": "and.b32 %r3, %r2, 3; match.any.sync.b32 %r3, %r3, -1;",
}


@pytest.mark.parametrize("name", TOGETHER)
def test_lanes_wait_for_each_other(name: str) -> None:
    """The same comes out whether half of the warp is long on its way or not."""
    x = np.where(LANES == 16, 0, LANES * 0x00010003 + 1).astype(np.uint32)
    results = []
    for turns in (1, 5000):
        out = np.zeros(32, np.uint32)
        text = HEAD + SPIN.format(turns=turns, op=TOGETHER[name])
        weft.load_ptx(text).k[1, 32](x, out)
        results.append(out.tolist())
    assert results[0] == results[1]


def test_a_float_with_the_bits_of_an_index_in_a_strip() -> None:
    """Many live vectors around a divergent loop, which take it lane by lane, in strips."""
    n, m = 28, 3
    lines = [
        "__global__ void k(const float* x, float* y, int m) {",
        "unsigned t = threadIdx.x; float f = __uint_as_float(t + 0x3f800000u);",
    ]
    lines += [f"float a{i} = x[t + 64 * {i}];" for i in range(n)]
    lines += ["for (int j = 0; j < (int)(x[t] * 4) + m; j++) { if (x[t + j] > 0.5f) continue;"]
    for i in range(n):
        lines.append(f"{{ float p = a{i} * f; float q = p * p - a{(i + 1) % n};")
        lines.append(f"float r = q * p + f; float s = r * q - p; a{i} = s * r + f * q; }}")
    lines += ["}", *(f"y[t + 64 * {i}] = a{i};" for i in range(n)), "}"]
    x = np.random.default_rng(0).random(64 * n).astype(np.float32) * np.float32(0.7)
    y = np.zeros_like(x)
    weft.cuda("\n".join(lines), options=["--fmad=false"]).k[1, 64](x, y, m)
    a, lane = list(x.reshape(n, 64).copy()), np.arange(64)
    f = (np.arange(64, dtype=np.uint32) + 0x3F800000).view(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for j in range(m + 4):
            runs = (j < (x[lane] * 4).astype(int) + m) & (x[lane + j] <= 0.5)
            for i in range(n):
                p = a[i] * f
                q = p * p - a[(i + 1) % n]
                r = q * p + f
                a[i] = np.where(runs, (r * q - p) * r + f * q, a[i])
    assert np.array_equal(y, np.concatenate(a), equal_nan=True)
