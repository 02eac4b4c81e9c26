"""Products and sums without a rounding mode are one fma, as ptxas 13 makes them on an H200."""

from __future__ import annotations

import numpy as np
import pytest

import weft

KERNEL = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd)
{{
    .reg .b16 a, b, c, d, t, u;
    .reg .b64 %rd<9>;
    .reg .b32 %r<5>;
    mov.u32 %r1, %tid.x;
    mul.wide.s32 %rd0, %r1, 2;
    ld.param.u64 %rd1, [pa];
    ld.param.u64 %rd2, [pb];
    ld.param.u64 %rd3, [pc];
    ld.param.u64 %rd4, [pd];
    add.s64 %rd1, %rd1, %rd0;
    add.s64 %rd2, %rd2, %rd0;
    add.s64 %rd3, %rd3, %rd0;
    add.s64 %rd4, %rd4, %rd0;
    ld.global.b16 a, [%rd1];
    ld.global.b16 b, [%rd2];
    ld.global.b16 c, [%rd3];
    {body}
    st.global.b16 [%rd4], d;
    ret;
}}
"""

# what an H200 (driver 580, its own ptxas) gave for each body, as a formula; p is round(a * b)
CASES = [
    ("mul.f16 t, a, b; add.f16 d, t, c;", lambda a, b, c, p: a * b + c),
    ("mul.f16 t, a, b; add.f16 d, c, t;", lambda a, b, c, p: a * b + c),
    ("mul.f16 t, a, b; sub.f16 d, t, c;", lambda a, b, c, p: a * b - c),
    ("mul.f16 t, a, b; sub.f16 d, c, t;", lambda a, b, c, p: c - a * b),
    ("mul.f16 t, a, b; mul.f16 u, b, c; add.f16 d, t, u;", lambda a, b, c, p: a * b + p(b, c)),
    ("mul.f16 t, a, b; mul.f16 u, b, c; add.f16 d, u, t;", lambda a, b, c, p: b * c + p(a, b)),
    ("mul.f16 t, a, b; mul.f16 u, b, c; sub.f16 d, t, u;", lambda a, b, c, p: a * b - p(b, c)),
    ("mul.f16 t, a, b; neg.f16 u, t; add.f16 d, u, c;", lambda a, b, c, p: c - a * b),
    ("mul.f16 t, a, b; add.rn.f16 d, t, c;", lambda a, b, c, p: p(a, b) + c),
    ("mul.rn.f16 t, a, b; add.f16 d, t, c;", lambda a, b, c, p: p(a, b) + c),
]


@pytest.mark.parametrize(("body", "formula"), CASES, ids=[c[0] for c in CASES])
def test_fused_as_the_assembler_does(body: str, formula: object) -> None:
    rng = np.random.default_rng(3)
    a, b, c = (rng.standard_normal((3, 1024)) * 2).astype(np.float16)
    d = np.zeros_like(a)
    weft.load_ptx(KERNEL.format(body=body)).k[1, 1024](a, b, c, d)
    wide = [x.astype(np.float64) for x in (a, b, c)]

    def rounded(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return (x * y).astype(np.float16).astype(np.float64)

    want = formula(*wide, rounded).astype(np.float16)  # type: ignore[operator]
    assert np.array_equal(d.view(np.uint16), want.view(np.uint16))
