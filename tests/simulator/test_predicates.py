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
    "not of both": (f"{GE} or.pred %p4, %p1, %p2; not.pred %p3, %p4; {TAKEN}", lambda i: i >= 20),
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


STEPS = (1, 4, 3, -4, 32)
ORDERS = ("lt", "le", "gt", "ge", "eq", "ne")
GUARDED = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 out, .param .u32 start, .param .u32 limit) {{
    .reg .pred %p<{count}>;
    .reg .b32 %r<8>, %v<{count}>, %i<{count}>;
    .reg .b64 %rd<8>;
    ld.param.b64 %rd1, [x];
    ld.param.b64 %rd2, [out];
    ld.param.b32 %r1, [start];
    ld.param.b32 %r2, [limit];
    mov.u32 %r3, %tid.x;
    mad.wide.u32 %rd3, %r3, 4, %rd1;
    mad.wide.u32 %rd4, %r3, 4, %rd2;
    {compare}
    bar.sync 0;
    {use}
    ret;
}}
"""
EDGES = [
    *((0, limit) for limit in (-1, 0, 1, 3, 4, 5, 31, 32, 63, 93, 124, 127, 128, 129, 252, 253)),
    *((1000, limit) for limit in (900, 1000, 1001, 1123, 1124, 1125, 2000)),
    (0x7FFFFFF0, 5), (0x7FFFFFF0, -0x7FFFFFF0), (-20, 4), (-20, -4), (-20, 0x7FFFFFFF),
]  # fmt: skip


def test_guarded_loads_and_stores_at_any_distance() -> None:
    rows = [(s, o, t) for s in STEPS for o in ORDERS for t in ("s32", "u32")]
    rows = [(s, o, t) for s, o, t in rows if t == "s32" or o not in ("eq", "ne")]
    compare, use, stored = [], [], 4 * 64 * len(rows)
    for i, (step, order, kind) in enumerate(rows):
        compare.append(f"mad.lo.s32 %i{i}, %r3, {step}, %r1;")
        compare.append(f"setp.{order}.{kind} %p{i}, %i{i}, %r2;")
        use.append(f"mov.b32 %v{i}, 7; @%p{i} ld.global.b32 %v{i}, [%rd3];")
        use.append(f"st.global.b32 [%rd4 + {256 * i}], %v{i};")
        use.append(f"@!%p{i} st.global.b32 [%rd4 + {stored + 256 * i}], %r3;")
    ptx = GUARDED.format(count=len(rows), compare=" ".join(compare), use=" ".join(use))
    k, t = weft.load_ptx(ptx).k, np.arange(64)
    x = (100 + t).astype(np.int32)
    for start, limit in EDGES:
        out = np.full((2, len(rows), 64), -1, np.int32)
        k[1, 64](x, out, start & 0xFFFFFFFF, limit & 0xFFFFFFFF)
        for i, (step, order, kind) in enumerate(rows):
            width = {"s32": np.int32, "u32": np.uint32}[kind]
            a = ((start + step * t) & 0xFFFFFFFF).astype(np.uint32).view(width)
            b = np.array(limit & 0xFFFFFFFF, np.uint32).view(width)
            holds = {"lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b, "eq": a == b}
            p = a != b if order == "ne" else holds[order]
            where = f"{step} {order} {kind}, {start} {limit}"
            assert out[0, i].tolist() == np.where(p, x, 7).tolist(), where
            assert out[1, i].tolist() == np.where(p, -1, t).tolist(), where
