"""Kernels whose accesses once escaped the address checks, or could: run where a crash does no harm.

As a program it runs them all and writes `name: outcome` for each.
"""

from __future__ import annotations

import numpy as np

import weft
from folders import TESTS

HEAD = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a, .param .u32 zero) {
.shared .align 16 .b8 buf[1024]; .local .align 16 .b8 own[64];
.reg .pred %p<2>; .reg .b32 %r<10>; .reg .b64 %rd<9>;
ld.param.u64 %rd1, [a]; ld.param.u32 %r9, [zero]; mov.u32 %r1, %tid.x;
"""
WRAPS = 138547333
"""31 times this is 27, modulo 2^32: the first and the last lane are close, the others far away."""
WRAPS_64 = 595056260442243601
"""The same for 64 bits."""
SHARED_STEP = f"mul.lo.u32 %r2, %r1, {WRAPS}; add.u32 %r2, %r2, %r9;"
BULK = "mov.u32 %r2, buf; cp.async.bulk.{}; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
OUTSIDE = {
    "lanes that wrap in shared memory": f"{SHARED_STEP} ld.shared.u8 %r3, [%r2];",
    "lanes that wrap in local memory": f"{SHARED_STEP} st.local.u8 [%r2], %r1;",
    "lanes that wrap in global memory": (
        f"cvt.u64.u32 %rd2, %r1; mul.lo.u64 %rd2, %rd2, {WRAPS_64}; add.u64 %rd2, %rd2, %rd1; "
        "ld.global.u8 %r3, [%rd2];"
    ),
    "indices that wrap": (
        f"{SHARED_STEP} cvt.u64.u32 %rd2, %r2; add.u64 %rd2, %rd2, %rd1; st.global.u8 [%rd2], %r1;"
    ),
    "offsets that wrap in shared memory": (
        "xor.b32 %r2, %r9, 0x80000000; ld.shared.u32 %r3, [%r2+-2147483648]; "
        "ld.shared.u32 %r3, [%r2]; ld.shared.u32 %r3, [%r2+2147483644];"
    ),
    "offsets that wrap in global memory": (
        "ld.global.u32 %r3, [%rd1]; ld.global.u32 %r3, [%rd1+9223372036854775807]; "
        "ld.global.u32 %r3, [%rd1+18446744073709551612];"
    ),
    "a bulk store of almost 4 GiB": BULK.format(
        "global.shared::cta.bulk_group [%rd1+64], [%r2+64], 4294967280"
    ),
    "a bulk store of more than 2 GiB": BULK.format(
        "global.shared::cta.bulk_group [%rd1+64], [%r2+64], 2147483664"
    ),
    "a bulk store past the array's end": BULK.format(
        "global.shared::cta.bulk_group [%rd1+64], [%r2], 256"
    ),
}
"""All of them are out-of-bounds."""


MUTANT = TESTS / "golden" / "grouped_far_offset.ptx"
"""One that crashed: `[%r2+4294967296]`, which is `[%r2]`, among other accesses by %r2."""


def outcome(text: str, *args: object) -> str:
    """The name of the error that ends a launch, or "ok"."""
    try:
        weft.load_ptx(text).k[1, 32](*args)
    except weft.Error as error:
        return type(error).__name__
    return "ok"


if __name__ == "__main__":
    for name, body in OUTSIDE.items():
        ended = outcome(HEAD + body + " ret; }", np.zeros(64, np.uint32), 0)
        print(f"{name}: {ended}", flush=True)
    arrays = np.ones(72, np.float32), np.zeros(72, np.float32)
    print(f"mutant: {outcome(MUTANT.read_text(), *arrays, 63)}", flush=True)
