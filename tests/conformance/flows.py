"""Programs with control flow that ptxas changes: which instruction, and what it becomes.

Each is a program of the recording; see `mistakes.py` for what is done with it.
"""

from __future__ import annotations

from dataclasses import dataclass

LONG_SHIFT = "ptxas drops a left shift by 64 or more of a 64-bit product or choice: a bug of ptxas"
UNSIGNED = "ptxas shifts a u32 that `cvt.s64.u32` made wide as if it were signed: a bug of ptxas"
LATER = (
    "ptxas keeps `and.pred p, q, q` in the register of q, which is written again before p is read: "
    "a bug of ptxas"
)
COUNTED = (
    "ptxas counts a loop in a register that the threads of a warp share, and they go round it "
    "apart: a bug of ptxas"
)


@dataclass(frozen=True)
class Flow:
    why: str
    line: str
    becomes: str


FLOWS = {
    "graph 1 1763": Flow(LONG_SHIFT, "shl.b64 %d4, %d0, 77;", "mov.b64 %d4, %d0;"),
    "straight 1 83": Flow(LONG_SHIFT, "shl.b64 %d2, %d1, 77;", "mov.b64 %d2, %d1;"),
    "straight 1 159": Flow(LONG_SHIFT, "shl.b64 %d0, %d2, 64;", "mov.b64 %d0, %d2;"),
    "straight 1 607": Flow(LONG_SHIFT, "shl.b64 %d0, %d3, 64;", "mov.b64 %d0, %d3;"),
    "straight 1 639": Flow(LONG_SHIFT, "shl.b64 %d2, %d0, 64;", "mov.b64 %d2, %d0;"),
    "straight 1 774": Flow(LONG_SHIFT, "shl.b64 %d3, %d2, 64;", "mov.b64 %d3, %d2;"),
    "warp 1 748": Flow(LONG_SHIFT, "shl.b64 %d1, %d0, %r3;", "mov.b64 %d1, %d0;"),
    "graph 1 1822": Flow(UNSIGNED, "shl.b64 %d0, %d4, 16;", "mul.wide.s32 %d0, %r7, 65536;"),
    "tree 1 1409": Flow(UNSIGNED, "shl.b64 %d1, %d4, 2;", "mul.wide.s32 %d1, %u0, 4;"),
    "straight 1 429": Flow(
        LATER, "@%p0 st.global.u32 [%mine+96], %r7;", "@%p1 st.global.u32 [%mine+96], %r7;"
    ),
    # Thread 2 goes its own way first and uses up the fuel of the six others of its warp.
    "graph 1 2306": Flow(
        COUNTED,
        "mov.u32 %fuel, 4;",
        "mov.u32 %fuel, 4; .reg .pred %late; setp.ne.u32 %late, %self, 2; "
        "setp.lt.and.u32 %late, %self, 7, %late; @%late mov.u32 %fuel, 1;",
    ),
}
