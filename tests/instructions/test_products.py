"""Products of 64-bit vectors with constants, which are sums of shifts where that is shorter."""

from __future__ import annotations

import numpy as np

import weft

CONSTANTS = [3, -3, 5, 7, 10, 11, 24, 1 << 62, 0x7FFFFFFFFFFFFFFF, 0x8000000000000001, -1, 1000003]

KERNEL = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y) {{
    .reg .b64 %rd<8>;
    .reg .b32 %r<2>;
    ld.param.b64 %rd1, [x];
    ld.param.b64 %rd2, [y];
    mov.u32 %r1, %tid.x;
    mad.wide.u32 %rd1, %r1, 8, %rd1;
    mad.wide.u32 %rd2, %r1, {stride}, %rd2;
    ld.global.b64 %rd3, [%rd1];
    {body}
    ret;
}}
"""


def test_constants_of_vectors() -> None:
    body = []
    for i, c in enumerate(CONSTANTS):
        body.append(f"mul.lo.s64 %rd4, %rd3, {c}; st.global.b64 [%rd2+{16 * i}], %rd4;")
        body.append(f"mad.lo.u64 %rd5, {c}, %rd3, %rd4; st.global.b64 [%rd2+{16 * i + 8}], %rd5;")
    x = np.random.default_rng(0).integers(0, 1 << 64, 64, np.uint64)
    y = np.zeros((64, len(CONSTANTS), 2), np.uint64)
    text = KERNEL.format(stride=16 * len(CONSTANTS), body="\n".join(body))
    weft.load_ptx(text).k[1, 64](x, y)
    for i, c in enumerate(CONSTANTS):
        product = x * np.uint64(c % (1 << 64))
        np.testing.assert_array_equal(y[:, i, 0], product)
        np.testing.assert_array_equal(y[:, i, 1], product + product)
