"""Branches that scalars settle: predicates combined with others, values that move on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft

KERNEL = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 limit) {{
    .reg .pred %p<8>, %q<1501>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<3>;
    ld.param.b64 %rd1, [out];
    ld.param.b32 %r7, [limit];
    mov.u32 %r1, %tid.x;
    mad.wide.u32 %rd2, %r1, 4, %rd1;
    ld.global.b32 %r2, [%rd2];
    mov.b32 %r0, 0;
    setp.gt.u32 %p2, %r2, 31;
    {body}
DONE:
    st.global.b32 [%rd2], %r0;
    ret;
}}
"""
GE = "setp.ge.s32 %p1, %r1, %r7;"
TAKEN = "@%p3 bra DONE; mov.b32 %r0, 1;"
ROWS = {
    "or with lanes": (f"{GE} or.pred %p3, %p1, %p2; {TAKEN}", lambda i: i < 20),
    "lanes or": (f"{GE} or.pred %p3, %p2, %p1; {TAKEN}", lambda i: i < 20),
    "and with lanes": (f"{GE} and.pred %p3, %p1, %p2; {TAKEN}", lambda i: True),
    "not of both": (
        f"{GE} or.pred %p4, %p1, %p2; not.pred %p3, %p4; {TAKEN}",
        lambda i: i >= 20,
    ),
    "literals, as NVRTC writes them": (
        f"{GE} xor.pred %p4, %p1, -1; or.pred %p5, %p4, 0; and.pred %p3, %p5, 1; {TAKEN}",
        lambda i: i >= 20,
    ),
    "under a guard": (
        f"{GE} mov.pred %p3, %p2; @!%p2 or.pred %p3, %p1, %p2; {TAKEN}",
        lambda i: i < 20,
    ),
    "a loop that moves on before it branches": (
        "LOOP: add.s32 %r0, %r0, 1; add.s32 %r3, %r1, 7; setp.lt.s32 %p1, %r1, %r7; "
        "mov.b32 %r1, %r3; @%p1 bra LOOP;",
        lambda i: max(0, -(-(20 - i) // 7)) + 1,
    ),
    "a loop that reads the last iteration's predicate": (
        f"LOOP: add.s32 %r0, %r0, 1; not.pred %p4, %p1; {GE} "
        "setp.gt.s32 %p5, %r0, 1; setp.gt.s32 %p6, %r0, 3; not.pred %q1, %p4; "
        "and.pred %q2, %q1, %p5; or.pred %p3, %q2, %p6; @%p3 bra DONE; bra LOOP;",
        lambda i: 2 if i >= 20 else 4,
    ),
    "a predicate that reads itself": (f"not.pred %p3, !%p3; {TAKEN}", lambda i: 1),
    "more combinations than Python's stack is deep": (
        GE
        + "".join(f"not.pred %q{i + 1}, %q{i};" for i in range(1500)).replace("%q0;", "%p1;")
        + " @%q1500 bra DONE; mov.b32 %r0, 1;",
        lambda i: i < 20,
    ),
}


@pytest.mark.parametrize(("body", "wanted"), ROWS.values(), ids=ROWS.keys())
def test_edge_within_a_warp(body: str, wanted: Callable[[int], int]) -> None:
    out = np.zeros(64, np.uint32)
    weft.load_ptx(KERNEL.format(body=body)).k[1, 64](out, 20)
    assert out.tolist() == [int(wanted(i)) for i in range(64)]
