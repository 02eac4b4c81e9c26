"""Bad PTX by the thousand: real kernels with something broken, run where a crash does no harm.

As a program (`python hostile.py SEED START COUNT FOLDER`) it runs that many cases and writes one
line for each: `ok`, or what should not have happened. `test_hostile.py` starts it and reads them;
a process that dies or stands still is a finding too.
"""

from __future__ import annotations

import contextlib
import io
import random
import re
import resource
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
MEMORY = 6 << 30
"""Bytes of address space a case may use."""

KERNELS = {
    "loop": """
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u32 p2)
{ .reg .pred %p<3>; .reg .b32 %r<9>; .reg .f32 %f<5>; .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1]; ld.param.u32 %r1, [p2];
  mov.u32 %r2, %tid.x; mad.lo.s32 %r3, %ctaid.x, %ntid.x, %r2;
  and.b32 %r3, %r3, 63;
  mul.wide.s32 %rd3, %r3, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
  mov.f32 %f1, 0f00000000; mov.u32 %r4, 0; and.b32 %r1, %r1, 7;
LOOP: setp.ge.s32 %p1, %r4, %r1; @%p1 bra DONE;
  ld.global.f32 %f2, [%rd4]; fma.rn.f32 %f1, %f2, 0f3F800000, %f1;
  add.s32 %r4, %r4, 1; bra.uni LOOP;
DONE: st.global.f32 [%rd5], %f1; ret; }""",
    "shared": """
.shared .align 16 .b8 buf[512];
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u32 p2)
{ .reg .pred %p<3>; .reg .b32 %r<12>; .reg .b64 %rd<6>; .reg .b16 %h<3>;
  .local .align 8 .b8 own[64];
  ld.param.u64 %rd1, [p0]; mov.u32 %r1, %tid.x; and.b32 %r1, %r1, 63; shl.b32 %r2, %r1, 2;
  mov.u32 %r3, buf; add.s32 %r4, %r3, %r2; st.shared.u32 [%r4], %r1;
  bar.sync 0;
  xor.b32 %r5, %r2, 4; add.s32 %r6, %r3, %r5; ld.shared.v2.u32 {%r7, %r8}, [buf+8];
  ld.shared.u32 %r9, [%r6]; st.local.u32 [own+4], %r9; ld.local.s16 %h1, [own+4];
  cvt.s32.s16 %r10, %h1; mov.u64 %rd4, own; cvta.local.u64 %rd5, %rd4; ld.u32 %r11, [%rd5+4];
  mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; setp.lt.u32 %p1, %r10, 40;
  @%p1 st.global.u32 [%rd3], %r11; @!%p1 st.global.u32 [%rd3], %r7; ret; }""",
    "branches": """
.const .align 4 .b32 table[4] = {1, 2, 3, 4};
.global .align 8 .u64 total;
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u32 p2)
{ .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<6>; .reg .f64 %fd<4>;
  mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 3; shl.b32 %r3, %r2, 2;
  T: .branchtargets A, B, C, A;
  mov.u64 %rd1, table; cvt.u64.u32 %rd2, %r3; add.s64 %rd3, %rd1, %rd2; ld.const.u32 %r4, [%rd3];
  brx.idx %r2, T;
A: add.s32 %r5, %r4, 1; bra JOIN;
B: vote.sync.ballot.b32 %r5, %p1, 0xffffffff; setp.eq.u32 %p1, %r5, 3; bra JOIN;
C: atom.global.add.u64 %rd4, [total], 1; cvt.u32.u64 %r5, %rd4; cvt.rn.f64.u32 %fd1, %r5;
  add.f64 %fd2, %fd1, 0d3FF0000000000000; cvt.rzi.u32.f64 %r5, %fd2;
JOIN: ld.param.u64 %rd5, [p1]; mov.b64 {%r6, %r7}, %rd5; mov.b64 %rd5, {%r6, %r7};
  st.global.u32 [%rd5+16], %r5; ret; }""",
    "calls": """
.func (.param .b32 out) twice(.param .b32 a)
{ .reg .b32 %r<3>; ld.param.b32 %r1, [a]; add.s32 %r2, %r1, %r1; st.param.b32 [out], %r2; ret; }
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u32 p2)
{ .reg .b32 %r<5>; .reg .b64 %rd<3>; .reg .pred %p<2>;
  ld.param.u64 %rd1, [p0]; ld.param.u32 %r1, [p2];
  { .param .b32 x; st.param.b32 [x], %r1; .param .b32 y;
    call.uni (y), twice, (x); ld.param.b32 %r2, [y]; }
  shfl.sync.idx.b32 %r3|%p1, %r2, 0, 31, -1; st.global.u32 [%rd1], %r3; ret; }""",
    "copies": """
.shared .align 16 .b8 buf[512];
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u32 p2)
{ .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<6>; .shared .align 8 .b64 full;
  ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1]; mov.u32 %r1, %tid.x; and.b32 %r1, %r1, 15;
  shl.b32 %r2, %r1, 4; mov.u32 %r3, buf; add.u32 %r4, %r3, %r2; mad.wide.u32 %rd3, %r1, 16, %rd1;
  cp.async.ca.shared.global [%r4], [%rd3], 16; cp.async.commit_group; cp.async.wait_group 0;
  cp.async.ca.shared.global [%r4+256], [%rd3], 8, %r1; cp.async.wait_all; bar.sync 0;
  mov.u32 %r5, 64; mov.u32 %r6, full; mov.u32 %r8, %tid.y; mov.u32 %r7, %tid.x;
  or.b32 %r7, %r7, %r8; setp.ne.u32 %p1, %r7, 0; @%p1 bra DONE;
  mbarrier.init.shared.b64 [%r6], 1;
  cp.async.bulk.global.shared::cta.bulk_group [%rd2+64], [%r3], %r5;
  cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
  mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r6], %r5;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3+64], [%rd1], %r5, [%r6];
WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r6], 0; @!%p2 bra WAIT;
DONE: ret; }""",
    "fragments": """
.shared .align 32 .b8 buf[2048];
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u32 p2)
{ .reg .b32 %r<30>; .reg .f32 %f<9>; .reg .b64 %rd<3>; .reg .pred %p<2>;
  mov.u32 %r1, buf; mov.u32 %r2, %laneid; shl.b32 %r3, %r2, 4; add.u32 %r4, %r1, %r3;
  st.shared.v4.u32 [%r4], {%r2, %r3, %r2, %r3}; bar.warp.sync -1; mov.u32 %r29, 16;
  wmma.load.a.sync.aligned.row.m16n16k16.shared.f16
    {%r5,%r6,%r7,%r8,%r9,%r10,%r11,%r12}, [%r1], %r29;
  wmma.load.b.sync.aligned.col.m16n16k16.shared.f16
    {%r13,%r14,%r15,%r16,%r17,%r18,%r19,%r20}, [%r1];
  mov.f32 %f1, 0f3F800000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;
  mov.f32 %f5, %f1; mov.f32 %f6, %f1; mov.f32 %f7, %f1; mov.f32 %f8, %f1;
  wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8},
    {%r5,%r6,%r7,%r8,%r9,%r10,%r11,%r12}, {%r13,%r14,%r15,%r16,%r17,%r18,%r19,%r20},
    {%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8};
  wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%r1+1024], {%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8};
  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r21, %r22, %r23, %r24}, [%r4];
  movmatrix.sync.aligned.m8n8.trans.b16 %r25, %r21;
  stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r4], {%r25, %r22}; ret; }""",
    "memory": """
.shared .align 16 .b8 buf[1024]; .const .align 16 .b32 few[4] = {1, 2, 3, 4};
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u32 p2)
{ .reg .pred %p<3>; .reg .b32 %r<12>; .reg .b64 %rd<12>; .local .align 16 .b8 own[64];
  ld.param.u64 %rd1, [p0]; ld.param.u32 %r1, [p2]; mov.u32 %r2, %tid.x; and.b32 %r2, %r2, 15;
  mul.lo.u32 %r3, %r2, 16; cvt.u64.u32 %rd2, %r3; add.u64 %rd3, %rd1, %rd2;
  ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd3]; ld.global.u32 %r8, [%rd3+4];
  ld.global.u32 %r9, [%rd3+12]; mov.u64 %rd4, buf; cvta.shared.u64 %rd5, %rd4;
  add.u64 %rd5, %rd5, %rd2; st.v2.u32 [%rd5], {%r4, %r5}; ld.u64 %rd6, [%rd5];
  and.b32 %r10, %r1, 3; mul.wide.u32 %rd7, %r10, 16; mov.u64 %rd8, own; add.u64 %rd9, %rd8, %rd7;
  st.local.v4.u32 [%rd9], {%r6, %r7, %r8, %r9}; cvta.local.u64 %rd10, %rd9; ld.u32 %r11, [%rd10+8];
  shl.b32 %r10, %r10, 2; ld.const.u32 %r4, [few]; ld.shared.u32 %r5, [%r3+256];
  atom.shared.max.s32 %r5, [%r3+512], %r4; atom.global.cas.b64 %rd6, [%rd3+8], %rd6, %rd2;
  red.global.add.u32 [%rd3], %r11; atom.add.f32 %r6, [%rd3+4], %r7; prefetch.global.L1 [%rd3];
  setp.lt.u32 %p1, %r2, 7; @%p1 st.shared.u8 [%r3+1], %r4; @!%p1 ld.shared.u16 %r5, [%r3+2];
  st.global.u32 [%rd3], %r5; ret; }""",
    "services": """
.extern .func (.param .b64 out) malloc(.param .b64 n);
.extern .func free(.param .b64 p);
.extern .func (.param .b32 out) vprintf(.param .b64 f, .param .b64 a);
.global .align 1 .b8 form[6] = {37, 100, 37, 115, 10, 0};
.func (.param .b32 out) down(.param .b32 n)
{ .reg .b32 %r<4>; .reg .pred %p<2>; ld.param.b32 %r1, [n]; setp.lt.s32 %p1, %r1, 1; @%p1 bra END;
  { .param .b32 x; .param .b32 y; add.s32 %r2, %r1, -1; st.param.b32 [x], %r2;
    call.uni (y), down, (x); ld.param.b32 %r1, [y]; }
END: st.param.b32 [out], %r1; ret; }
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u32 p2)
{ .reg .b32 %r<6>; .reg .b64 %rd<12>; .reg .pred %p<2>; .local .align 8 .b8 list[16];
  mov.u64 %rd1, 64; ld.param.u32 %r1, [p2];
  { .param .b64 x; st.param.b64 [x], %rd1; .param .b64 y; call.uni (y), malloc, (x);
    ld.param.b64 %rd2, [y]; }
  st.u32 [%rd2+4], %r1; ld.u32 %r2, [%rd2+4];
  mov.u64 %rd3, list; cvta.local.u64 %rd4, %rd3; mov.u64 %rd5, form; cvta.global.u64 %rd6, %rd5;
  st.local.u32 [%rd3], %r2; st.local.u64 [%rd3+8], %rd6;
  { .param .b64 f; .param .b64 a; .param .b32 o; st.param.b64 [f], %rd6; st.param.b64 [a], %rd4;
    call.uni (o), vprintf, (f, a); ld.param.b32 %r3, [o]; }
  { .param .b64 x; st.param.b64 [x], %rd2; call.uni free, (x); }
  { .param .b32 x; .param .b32 y; st.param.b32 [x], %r1; mov.u64 %rd7, down;
    P: .callprototype (.param .b32 _) _ (.param .b32 _);
    call (y), %rd7, (x), P; ld.param.b32 %r4, [y]; }
  ld.param.u64 %rd8, [p1]; st.global.u32 [%rd8], %r4; ret; }""",
}
CUDA = {
    "sum": """
extern "C" __global__ void k(const float* x, float* y, int n) {
    __shared__ float s[64];
    int t = threadIdx.x & 63;
    float a = 0;
    for (int i = t; i < (n & 63); i += 64) a += x[i];
    s[t] = a;
    __syncthreads();
    for (int h = 32; h; h >>= 1) { if (t < h) s[t] += s[t + h]; __syncthreads(); }
    if (t == 0) y[0] = s[0];
}""",
    "mixed": """
#include <cuda_fp16.h>
extern "C" __global__ void k(const int* x, unsigned* y, int n) {
    int t = threadIdx.x & 31, v = x[t];
    int own[8];
    for (int i = 0; i < 8; i++) own[i] = v >> i;
    switch (v & 7) {
        case 0: v = own[n & 7]; break;
        case 1: v = __popc(v); break;
        case 2: v = (int)__half2float(__float2half((float)v)); break;
        case 3: v /= n | 1; break;
        case 4: v = __shfl_xor_sync(__activemask(), v, 1); break;
        default: v ^= own[(v >> 3) & 7];
    }
    atomicAdd(y + 1, (unsigned)v);
    y[2 + t] = v;
}""",
}
NASTY = (
    *r"""
ld.global.u32 {r32}, [{imm}];
st.global.u64 [{r64}+{imm}], {r64};
ld.u32 {r32}, [{r64}];
ld.shared.u32 {r32}, [{r32}];
st.shared.v4.u32 [{r32}], {{{r32}, {r32}, {r32}, {r32}}};
ld.local.u64 {r64}, [{r32}];
st.local.u8 [{r64}], {r32};
ld.param.u32 {r32}, [{r32}];
ld.const.u32 {r32}, [{r64}];
ld.global.v2.u64 {{{r64}, {r64}}}, [{r64}+4];
ld.global.v3.u32 {{{r32}, {r32}, {r32}}}, [{r64}];
ld.global.v2.u32 {r32}, [{r64}];
ld.global.v4.u32 {{{r32}, {r32}}}, [{r64}];
ld.shared.b128 {r64}, [{r32}];
add.f64 {r32}, {r32}, {r32};
add.s32 {r64}, {r32}, {r16};
mul.wide.s32 {r32}, {r32}, 4;
mov.b64 {r32}, {{{r32}, {r32}}};
mov.b64 {{{r32}, {r32}, {r32}}}, {r64};
mov.u32 {r32}, nowhere;
mov.u32 {r32}, %nothing;
mov.pred {p}, {r32};
setp.lt.s32 {r32}, {r32}, 4;
selp.b32 {r32}, {r32}, {r32}, {r32};
@{r32} ret;
add.s32 {r32}, {r32};
add.s32 {r32}, {r32}, {r32}, {r32};
add.s32 4, {r32}, {r32};
add.s32 {r32}, [{r32}], 3;
add.f32 {r32}, {r32}, 1;
add.s32 {r32}, {r32}, 0f3F800000;
add.s32 {r32}, {r32}, {imm};
shl.b32 {r32}, {r32}, {imm};
div.s32 {r32}, {r32}, 0;
bra NOWHERE;
bra {r32};
brx.idx {r32}, NOWHERE;
bar.sync {imm};
bar.sync {r32};
@{p} bar.sync 0;
bar.sync 1, {imm};
bar.red.popc.u32 {r32}, 0, {p};
trap;
exit;
HERE{n}: bra HERE{n};
HERE{n}: @{p} bra HERE{n};
HERE{n}: bar.sync 0; bra HERE{n};
call (), k, ();
call nowhere;
call {r64};
ret {r32};
cvta.shared.u64 {r64}, {r32};
cvta.to.local.u64 {r64}, {r64};
isspacep.shared {p}, {r64};
isspacep.global {r32}, {r64};
atom.global.add.u32 {r32}, [{imm}], 1;
atom.shared.cas.b32 {r32}, [{r32}], {r32}, {r32};
atom.add.f64 {r32}, [{r64}], {r32};
red.global.add.u32 [{r64}], {imm};
shfl.sync.down.b32 {r32}, {r32}, {imm}, {imm}, {imm};
vote.sync.any.pred {r32}, {p}, -1;
match.any.sync.b32 {r32}, {r32}, 0;
redux.sync.add.s32 {r32}, {r32}, 0;
activemask.b32 {r64};
cvt.u8.u64 {p}, {r64};
cvt.rn.f16.f32 {r64}, {r16};
prmt.b32 {r32}, {r32}, {r32}, {imm};
lop3.b32 {r32}, {r32}, {r32}, {r32}, {imm};
bfe.u32 {r32}, {r32}, {imm}, {imm};
fma.rn.f16x2 {r32}, {r32}, {r64}, {r32};
ex2.approx.f32 {r32}, {imm};
not.pred {p}, !{p};
mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{{r32}, {r32}}}, {{{r32}}}, {{{r32}}}, {{{r32}}};
ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{r32}, {r32}}}, [{r32}];
cp.async.ca.shared.global [{r32}], [{r64}], {imm};
cp.async.wait_group {imm};
mbarrier.init.shared.b64 [{r32}], {imm};
mbarrier.arrive.shared.b64 {r64}, [{r32}];
nanosleep.u32 {imm};
prefetch.global.L1 [{r64}];
tex.2d.v4.f32.f32 {r32};
nop;
mov.u32 {r32}, %tid;
mov.u64 {r64}, %clock64;
mov.u32 {r32}, %pm0;
mov.u32 {r32}, %envreg3;
.reg .b32 %r<99999999>;
.local .b8 huge[{imm}];
.shared .b8 big[{imm}];
.reg .f64 {r32};
.shared .align 3 .b8 odd[8];
ld.global.u32 {r32}, [p0];
ld.param.u64 {r64}, [p2+{imm}];
st.param.u32 [p0], {r32};
st.const.u32 [{r64}], {r32};
ld.volatile.global.u32 {r32}, [{r64}];
{{ .reg .b32 %deep; mov.u32 %deep, {imm}; }}
{{
}}
@
add
;;;
""".strip().splitlines(),
    "\x00",
)
"""Statements to insert; the braces name a register of each kind, and an immediate."""
KINDS = (
    "pred", "b8", "u8", "b16", "f16", "s16", "b32", "f32", "s32", "u64", "f64", "b128", "v2", "v4",
    "shared", "global", "local",
)  # fmt: skip
IMMEDIATES = (
    "0", "1", "-1", "4", "31", "32", "64", "4294967295", "4294967296", "-2147483649", "2147483647",
    "138547333", "595056260442243601", "4294967280", "2147483664", "-2147483648", "1073741824",
    "18446744073709551615", "-9223372036854775808", "36893488147419103232", "0xffffffffffffffff",
    "1e308", "0f7F800000", "0d7FF0000000000000", "99999999999999999999999999",
)  # fmt: skip


class Mutator:
    """Breaks a kernel in one to three places."""

    def __init__(self, rng: random.Random, others: list[str]) -> None:
        self.rng, self.others, self.count = rng, others, 0

    def apply(self, text: str) -> str:
        ways: tuple[tuple[Callable[[str], str], int], ...] = (
            (self.insert, 9), (self.operand, 5), (self.opcode, 3), (self.number, 4), (self.drop, 4),
            (self.twice, 2), (self.move, 2), (self.truncate, 1), (self.letters, 1), (self.kind, 3),
            (self.comma, 1), (self.guard, 3),
        )  # fmt: skip
        for _ in range(self.rng.choice((1, 1, 1, 2, 3))):
            way = self.rng.choices([w for w, _ in ways], [n for _, n in ways])[0]
            text = way(text)
        return text

    def register(self, text: str, stem: str) -> str:
        found = re.findall(stem, text)
        return self.rng.choice(found) if found else "%r1"

    def insert(self, text: str) -> str:
        self.count += 1
        line = self.rng.choice(NASTY).format(
            r32=self.register(text, r"%r\d+"), r64=self.register(text, r"%rd\d+"),
            r16=self.register(text, r"%(?:h|rs)\d+"), p=self.register(text, r"%p\d+"),
            imm=self.rng.choice(IMMEDIATES), n=self.count,
        )  # fmt: skip
        return self._splice(text, r";", f"; {line}")

    def _splice(self, text: str, pattern: str, new: str) -> str:
        places = [m for m in re.finditer(pattern, text) if m.start() > len(HEAD)]
        if not places:
            return text
        at = self.rng.choice(places)
        return text[: at.start()] + new + text[at.end() :]

    def operand(self, text: str) -> str:
        """Mostly another register of the same kind, which leaves the text well formed."""
        found = [m.group() for m in re.finditer(r"%(?:rd|r|f|fd|p|h|rs)\d+", text)]
        old = self.rng.choice(found) if found else "%r1"
        alike = [x for x in found if x.rstrip("0123456789") == old.rstrip("0123456789")]
        others = re.findall(r"%\w+(?:\.\w)?|\b\d+\b|\b[a-zA-Z_]\w*\b", text)
        new = self.rng.choice(alike if alike and self.rng.random() < 0.6 else others)
        return self._splice(text, re.escape(old) + r"\b", new)

    def opcode(self, text: str) -> str:
        codes = re.findall(r"\b[a-z]\w*(?:\.[\w:]+)+", self.rng.choice(self.others))
        return self._splice(text, r"\b[a-z]\w*(?:\.[\w:]+)+(?= )", self.rng.choice(codes))

    def number(self, text: str) -> str:
        return self._splice(text, r"(?<=[ \[+,<])\d+", self.rng.choice(IMMEDIATES))

    def kind(self, text: str) -> str:
        return self._splice(
            text,
            r"(?<=\.)(?:b|u|s|f)(?:8|16|32|64)\b|(?<=\.)(?:shared|global|local|param)\b",
            self.rng.choice(KINDS),
        )

    def drop(self, text: str) -> str:
        return self._splice(text, r"[^;{}]*;", "")

    def twice(self, text: str) -> str:
        line = self.rng.choice(text.split(";"))
        return self._splice(text, ";", f";{line};")

    def move(self, text: str) -> str:
        parts = text.split(";")
        i, j = (self.rng.randrange(len(parts)) for _ in range(2))
        parts[i], parts[j] = parts[j], parts[i]
        return ";".join(parts)

    def truncate(self, text: str) -> str:
        return text[: self.rng.randrange(len(text))]

    def letters(self, text: str) -> str:
        chars = list(text)
        for _ in range(self.rng.choice((1, 1, 2, 8))):
            chars[self.rng.randrange(len(chars))] = self.rng.choice(
                "%.,;:[]{}()<>@!|_ \n-+09azx~\0"
            )
        return "".join(chars)

    def comma(self, text: str) -> str:
        return self._splice(
            text, r",[^,;]*(?=[,;])", self.rng.choice(("", ", %r1", ", _", ", {%r1}"))
        )

    def guard(self, text: str) -> str:
        return self._splice(
            text, r";\s*(?=[a-z])", self.rng.choice(("; @%p1 ", "; @!%p1 ", "; @%r1 "))
        )


def corpus(folder: Path) -> list[str]:
    """The kernels to break; the compiled ones are read from `folder`."""
    found = [HEAD + text for text in KERNELS.values()]
    return found + [path.read_text() for path in sorted(folder.glob("*.ptx"))]


def case(seed: str, number: int, texts: list[str]) -> str:
    """The text of one case."""
    rng = random.Random(f"{seed} {number}")
    small, large = texts[: len(KERNELS)], texts[len(KERNELS) :]
    text = rng.choice(large if large and rng.random() < 0.15 else small)
    return Mutator(rng, texts).apply(text)


def attempt(text: str, number: int, time_limit: float = 1.0) -> str:
    """Loads and launches one text, in so many seconds with compiling; says what happened."""
    import weft

    rng = random.Random(number)
    try:
        module = weft.load_ptx(text)
        for name in module.names[:2]:
            kernel = module.kernel(name)
            args: list[object] = []
            for p in kernel.packer.params:
                args.append(_memory(rng) if p.size == 8 else rng.choice((0, 3, 5)))
            block = rng.choice(((32, 1, 1), (64, 1, 1), (7, 3, 1)))
            with contextlib.redirect_stdout(io.StringIO()):  # what it prints is not an answer
                kernel[rng.choice((1, 2)), block](*args, time_limit=time_limit)
    except weft.Error as e:
        return f"ok {type(e).__name__}"
    except Exception as e:
        return f"HOLE {type(e).__name__}: {str(e)[:200]!r}"
    return "ok"


def _memory(rng: random.Random) -> np.ndarray:
    """An argument with room for what the kernels do when nothing is broken."""
    return np.array([rng.choice((0, 1, 7, 1 << 31)) for _ in range(72)], np.uint32)


def main(seed: str, start: int, count: int, folder: Path) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    texts = corpus(folder)
    for number in range(start, start + count):
        print(f"{number} begins", flush=True)
        print(f"{number} {attempt(case(seed, number, texts), number)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
