"""Warps that have nothing to do up to a barrier, and branches that few lanes take."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.device.sim.analyse.phases import ENDED
from weft.device.sim.analyse.prepare import prepare
from weft.device.sim.emit import registers
from weft.device.sim.emit.warp import WarpEmitter
from weft.ir import IrModule
from weft.ptx.parse import parse

TREE = r"""
extern "C" __global__ void tree(const float* x, float* out, int* trace, int bound) {
    __shared__ float s[256];
    int t = threadIdx.x, v = 0;
    s[t] = x[blockIdx.x * 256 + t];
    __syncthreads();
    if (t < 128) s[t] += s[t + 128];
    __syncthreads();
    if (t < 64) s[t] += s[t + 64];
    __syncthreads();
    if (t < bound) s[t] += s[t + 32];          // a bound of the launch
    __syncthreads();
    if (t < 12) s[t] += s[t + 12];             // not a power of two
    __syncthreads();
    if (t >= 250) s[t] *= 2.0f;                // warps before the last have nothing to do
    __syncthreads();
    if (t == 5) s[5] += s[250];
    __syncthreads();
    if (t < 40) v = t; else v = -t;            // every warp does something
    trace[blockIdx.x * 256 + t] = v;
    __syncthreads();
    if (t <= 3) { s[t] += s[t + 4]; if (t > 1) s[t] += 1.0f; }
    __syncthreads();
    if (t != 0) return;
    out[blockIdx.x] = s[0] + s[3] + s[5] + s[11] + s[255];
}
"""


def _expected(x: np.ndarray, bound: int) -> float:
    s = x.copy()
    for count, apart in ((128, 128), (64, 64), (bound, 32), (12, 12)):
        s[:count] += s[apart : apart + count].copy()
    s[250:] *= np.float32(2)
    s[5] += s[250]
    s[:4] += s[4:8].copy()
    s[2:4] += np.float32(1)
    return ((s[0] + s[3]) + s[5]) + s[11] + s[255]


@pytest.mark.parametrize("bound", [0, 7, 31, 32])
def test_a_tree_in_shared_memory(module: weft.Module, bound: int) -> None:
    x = np.random.default_rng(bound).standard_normal((3, 256), np.float32)
    out, trace = np.zeros(3, np.float32), np.zeros((3, 256), np.int32)
    module.tree[3, 256](x, out, trace, bound)
    np.testing.assert_array_equal(out, [_expected(row, bound) for row in x])
    t = np.arange(256)
    np.testing.assert_array_equal(trace, np.broadcast_to(np.where(t < 40, t, -t), trace.shape))


@pytest.fixture(scope="module")
def module() -> weft.Module:
    return weft.cuda(TREE)


def test_what_is_known_of_the_phases(module: weft.Module) -> None:
    parsed = parse(module.ptx.text)
    program = prepare(parsed, parsed.functions["tree"], (256, 1, 1))
    emitter = WarpEmitter(program, IrModule())
    emitter.emit()
    schedule = emitter.schedule
    # In the phase of `t >= 250` the first warps are idle, and not the last ones.
    assert sorted(x.end for x in schedule.idle.values()) == [2, 3, 4, 5, 7, 9, ENDED]
    assert set(schedule.active_lanes.values()) == {1, 4, 6, 12}
    assert not schedule.pending.points, "no lanes wait outside of an `if`"


LOOP = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry loop(.param .u64 x, .param .u32 n) {
    .reg .pred %p<3>;
    .reg .b32 %r<3>;
    .shared .align 4 .b8 s[256];
    ld.param.u32 %r2, [n];
    mov.u32 %r1, %tid.x;
    bra MIDDLE;
START:
    bar.sync 0;
    setp.ge.s32 %p1, %r1, %r2;
    @%p1 bra MEET;
    st.shared.u32 [s], %r1;
MEET:
    bar.sync 0;
MIDDLE:
    setp.eq.s32 %p2, %r2, 7;
    @%p2 bra DONE;
    bra START;
DONE:
    ret;
}
"""


def test_a_loop_of_idle_warps_can_be_stopped() -> None:
    """Its only way back is at a barrier that no warp arrives at by itself."""
    kernel, x = weft.load_ptx(LOOP).loop, np.zeros(1, np.int32)
    kernel[1, 64](x, 7)
    with pytest.raises(weft.TimeLimit, match="running"):
        kernel[1, 64](x, 0, time_limit=0.1)


LATER = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry later(.param .u64 y, .param .u32 n) {
    .reg .pred %p<3>;
    .reg .b32 %r<6>;
    .reg .b64 %d<4>;
    .shared .align 4 .b8 s[4];
    ld.param.u32 %r2, [n];
    mov.u32 %r1, %tid.x;
    bar.sync 0;
    setp.ne.s32 %p1, %r1, 0;
    @%p1 bra MEET;
    st.shared.u32 [s], %r2;
MEET:
    mov.u32 %r3, %tid.x;
    bar.sync 0;
    ld.shared.u32 %r4, [s];
    mov.u32 %r5, 0;
TURN:
    setp.ge.s32 %p2, %r5, %r3;
    @%p2 bra OUT;
    add.s32 %r5, %r5, 1;
    bra TURN;
OUT:
    add.s32 %r4, %r4, %r5;
    ld.param.u64 %d1, [y];
    mul.wide.s32 %d2, %r3, 4;
    add.s64 %d3, %d1, %d2;
    st.global.u32 [%d3], %r4;
    ret;
}
"""


def test_a_register_in_the_frame_that_idle_warps_give(monkeypatch: pytest.MonkeyPatch) -> None:
    """`%r3` is given in a phase in which the second warp is idle, and is not computed again."""
    monkeypatch.setattr(registers, "MANY_SCALAR_JOINS", 0)
    y = np.zeros(64, np.int32)
    weft.load_ptx(LATER).later[1, 64](y, 100)
    np.testing.assert_array_equal(y, np.arange(64) + 100)
