"""Shuffles, votes, matches, reductions: against recorded answers and plain Python."""

from __future__ import annotations

import json
from functools import reduce

import numpy as np
import pytest

import weft
from recorded import GOLDEN
from threads import run

LANES = range(32)
FULL = 0xFFFFFFFF
MODES = ["up", "down", "bfly", "idx"]
rng = np.random.default_rng(7)


def words(n: int = 32) -> np.ndarray:
    return rng.integers(0, 1 << 32, n, dtype=np.uint32)


def shuffle_lane(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """The manual's own words."""
    b, clamp, mask = b & 31, c & 31, c >> 8 & 31
    high = (lane & mask) | (clamp & ~mask & 31)
    low = lane & mask
    if mode == "up":
        j, ok = lane - b, lane - b >= high
    elif mode == "down":
        j, ok = lane + b, lane + b <= high
    elif mode == "bfly":
        j, ok = lane ^ b, (lane ^ b) <= high
    else:
        j = low | (b & ~mask)
        ok = j <= high
    return (j, ok) if ok else (lane, ok)


# ---- shfl --------------------------------------------------------------------------------------
@pytest.mark.parametrize("mode", MODES)
def test_shfl_as_recorded(mode: str) -> None:
    name = f"shfl.sync.{mode}.b32"
    assert name in json.loads((GOLDEN / "ops.json").read_text())
    with np.load(GOLDEN / "scalar_samples.npz") as data:
        a, b, c = (data[f"in:i32+i32+i32/w:{i}"] for i in range(3))
        want = data[f"out:{name}"]
    text = f"{name} %d0|%p0, %a0, %a1, %a2, -1; selp.u32 %d1, 1, 0, %p0;"
    for w in range(0, len(a), 1024):
        part = slice(w, w + 1024)
        got, found = run(text, [a[part], b[part], c[part]], [np.uint32, np.uint32])
        whole = got.astype(np.uint64) | found.astype(np.uint64) << np.uint64(32)
        assert (whole == want[part]).all()


CONSTANT = [
    ("up", 1, 0), ("up", 5, 0x1800), ("down", 16, 31), ("down", 3, 0x181F), ("bfly", 1, 31),
    ("bfly", 17, 31), ("bfly", 8, 0x101F), ("bfly", 16, 15), ("idx", 0, 31), ("idx", 33, 31),
    ("idx", 5, 0x1C1F), ("idx", 20, 7), ("up", 0, 0), ("idx", 31, 0x1F1F),
]  # fmt: skip


@pytest.mark.parametrize(("mode", "b", "c"), CONSTANT)
@pytest.mark.parametrize("old", [False, True])
def test_shfl_by_known_lanes(mode: str, b: int, c: int, old: bool) -> None:
    x = words()
    name, tail = (f"shfl.{mode}.b32", "") if old else (f"shfl.sync.{mode}.b32", ", -1")
    text = f"{name} %d0|%p0, %a0, {b}, {c}{tail}; selp.u32 %d1, 1, 0, %p0;"
    got, found = run(text, [x], [np.uint32, np.uint32])
    for lane in LANES:
        j, ok = shuffle_lane(mode, lane, b, c)
        assert (got[lane], found[lane]) == (x[j], ok)


def test_shfl_of_a_uniform_value_and_lane() -> None:
    text = """shfl.sync.idx.b32 %d0, %i, %a0, 31, -1;
              shfl.sync.bfly.b32 %d1|%p0, %a0, 1, 0x1e1f, -1;
              selp.u32 %d2, 1, 0, %p0;"""
    where = np.full(32, 9, np.uint32)
    got, same, found = run(text, [where], [np.uint32] * 3, uniform=True)
    assert (got == 9).all() and (same == 9).all()
    assert (found == [shuffle_lane("bfly", i, 1, 0x1E1F)[1] for i in LANES]).all()


def test_shfl_keeps_nan_bits_and_makes_arithmetic_ones_canonical() -> None:
    x = words()
    x[3], x[4], x[5] = 0x7F800001, 0xFFC12345, 0x7F800000
    text = """shfl.sync.bfly.b32 %d0, %a0, 1, 31, -1;
              .reg .f32 %f0, %f1; mov.b32 %f0, %a0; sub.f32 %f0, %f0, %f0;
              shfl.sync.bfly.b32 %r0, %f0, 1, 31, -1; mov.b32 %d1, %r0;
              shfl.sync.idx.b32 %d2, %f0, 5, 31, -1;"""
    moved, made, one = run(text, [x], [np.uint32] * 3)
    assert (moved == x[[i ^ 1 for i in LANES]]).all()
    assert made[2] == made[4] == made[5] == 0x7FFFFFFF and (one == 0x7FFFFFFF).all()


@pytest.mark.parametrize("threads", [1, 20, 32, 50])
def test_lanes_that_do_not_run_keep_their_registers(threads: int) -> None:
    x = words(threads)
    text = """and.b32 %r0, %a0, 1; setp.ne.u32 %p0, %r0, 0;
              mov.u32 %d0, 77; mov.u32 %d1, 77;
              @%p0 shfl.sync.idx.b32 %d0, %a0, %i, 31, -1;
              @!%p0 bra END;
              shfl.sync.bfly.b32 %d1, %a0, 0, 31, -1;
              END:"""
    for got in run(text, [x], [np.uint32, np.uint32]):
        assert (got == np.where(x & 1, x, 77)).all()


# ---- votes -------------------------------------------------------------------------------------
def vote(op: str, yes: set[int], members: set[int]) -> int:
    inside = yes & members
    return {
        "all": members <= yes,
        "any": bool(inside),
        "uni": members <= yes or not inside,
        "ballot": sum(1 << i for i in inside),
    }[op]


PREDICATES = [0, FULL, 1, 0x80000000, 0x00FF00FF, 0xDEADBEEF]


@pytest.mark.parametrize("op", ["all", "any", "uni", "ballot"])
@pytest.mark.parametrize("sync", [True, False])
def test_votes_count_the_members_that_run(op: str, sync: bool) -> None:
    name = f"vote{'.sync' if sync else ''}.{op}.{'b32' if op == 'ballot' else 'pred'}"
    mask = ", %a2" if sync else ""

    def ask(dest: str, predicate: str) -> str:
        if op == "ballot":
            return f"{name} {dest}, {predicate}{mask};"
        return f"{name} %p1, {predicate}{mask}; selp.u32 {dest}, 1, 0, %p1;"

    text = f"""setp.ne.u32 %p0, %a0, 0; setp.ne.u32 %p2, %a1, 0;
        {ask("%d0", "%p0")} {ask("%d1", "!%p0")} @!%p2 bra END; {ask("%d2", "%p0")} END:"""
    bits = [1 << i for i in LANES]
    for pattern in PREDICATES:
        for running in (0xFFFF, 0xF0F0F0F0, 1):
            for members in (FULL, 0x0FF0) if sync else (FULL,):
                a = np.array([pattern & x for x in bits], np.uint32)
                r = np.array([running & x for x in bits], np.uint32)
                m = np.full(32, members, np.uint32)
                yes, named = ({i for i in LANES if v >> i & 1} for v in (pattern, members))
                some = {i for i in LANES if running >> i & 1}
                got = run(text, [a, r, m], [np.uint32] * 3)
                assert (got[0] == vote(op, yes, named)).all()
                assert (got[1] == vote(op, set(LANES) - yes, named)).all()
                want = [vote(op, yes, named & some) if i in some else 0xEEEEEEEE for i in LANES]
                assert (got[2] == want).all()


def test_each_group_has_its_own_vote_and_reduction() -> None:
    x = words() & 0xFFFF
    groups = np.array([0x0000FFFF if i < 16 else 0xFFFF0000 for i in LANES], np.uint32)
    text = """setp.gt.u32 %p0, %a0, 0x7fff; vote.sync.ballot.b32 %d0, %p0, %a1;
              redux.sync.add.u32 %d1, %a0, %a1; redux.sync.max.s32 %d2, %a0, %a1;"""
    ballot, total, top = run(text, [x, groups], [np.uint32] * 3)
    for half in (range(16), range(16, 32)):
        part = x[list(half)]
        assert (ballot[list(half)] == sum(1 << i for i in half if x[i] > 0x7FFF)).all()
        assert (total[list(half)] == part.sum()).all() and (top[list(half)] == part.max()).all()


def test_activemask() -> None:
    text = """activemask.b32 %d0; setp.ge.u32 %p0, %i, 20; @%p0 bra END;
              activemask.b32 %d1; setp.lt.u32 %p1, %i, 4; @%p1 activemask.b32 %d1; END:"""
    whole, part = run(text, [words(30)], [np.uint32, np.uint32])
    assert (whole == (1 << 30) - 1).all()
    assert (part == [0xF] * 4 + [(1 << 20) - 1] * 16 + [0xEEEEEEEE] * 10).all()


def test_elect_takes_the_lowest_member() -> None:
    text = """elect.sync %d0|%p0, 0xfff0; selp.u32 %d1, 1, 0, %p0;
              setp.lt.u32 %p1, %i, 9; @%p1 bra END; elect.sync %d2|%p0, -1; END:"""
    leader, mine, later = run(text, [words()], [np.uint32] * 3)
    assert (leader == 4).all() and mine.tolist() == [int(i == 4) for i in LANES]
    assert (later == [0xEEEEEEEE] * 9 + [9] * 23).all()


# ---- match and redux ---------------------------------------------------------------------------
@pytest.mark.parametrize("bits", [32, 64])
def test_match_any_and_all(bits: int) -> None:
    kind = {32: np.uint32, 64: np.uint64}[bits]
    few = (words() % 5).astype(kind) << kind(bits - 8)
    same = np.full(32, 9, kind)
    text = f"""match.any.sync.b{bits} %d0, %a0, -1;
        match.all.sync.b{bits} %d1|%p0, %a1, 0x3ffffff0; selp.u32 %d2, 1, 0, %p0;
        setp.lt.u32 %p1, %i, 12; @%p1 match.all.sync.b{bits} %d3, %a0, -1;
        @!%p1 match.any.sync.b{bits} %d3, %a0, -1;"""
    any_, all_, agreed, part = run(text, [few, same], [np.uint32] * 4)
    equal = [sum(1 << j for j in LANES if few[j] == few[i]) for i in LANES]
    assert (any_ == equal).all()
    assert (all_[4:30] == 0x3FFFFFF0).all() and (agreed[4:30] == 1).all()
    want = [0] * 12 + [equal[i] & ~0xFFF for i in range(12, 32)]
    assert len(set(few[:12])) > 1 and (part == want).all()


REDUCTIONS = {
    "add.u32": lambda a, b: (a + b) & FULL,
    "add.s32": lambda a, b: (a + b) & FULL,
    "min.u32": min,
    "max.u32": max,
    "min.s32": lambda a, b: min(a, b, key=lambda v: v ^ 1 << 31),
    "max.s32": lambda a, b: max(a, b, key=lambda v: v ^ 1 << 31),
    "and.b32": lambda a, b: a & b,
    "or.b32": lambda a, b: a | b,
    "xor.b32": lambda a, b: a ^ b,
}


@pytest.mark.parametrize("op", REDUCTIONS)
def test_redux_over_members_that_run(op: str) -> None:
    x = words()
    text = f"""redux.sync.{op} %d0, %a0, -1; redux.sync.{op} %d1, %a0, 0x00ffff00;
        setp.lt.u32 %p0, %i, 11; @%p0 redux.sync.{op} %d2, %a0, -1;"""
    whole, named, guarded = run(text, [x], [np.uint32] * 3)
    values = [int(v) for v in x]
    assert (whole == reduce(REDUCTIONS[op], values)).all()
    assert (named[8:24] == reduce(REDUCTIONS[op], values[8:24])).all()
    assert (guarded[:11] == reduce(REDUCTIONS[op], values[:11])).all()
    assert (guarded[11:] == 0xEEEEEEEE).all()


def test_a_warp_prefix_sum_by_shuffles() -> None:
    x = words() % 100
    steps = "".join(
        f"shfl.sync.up.b32 %r1|%p0, %r0, {k}, 0, -1; @%p0 add.u32 %r0, %r0, %r1;"
        for k in (1, 2, 4, 8, 16)
    )
    (got,) = run(f"mov.b32 %r0, %a0; {steps} mov.b32 %d0, %r0;", [x], [np.uint32])
    assert (got == np.cumsum(x)).all()


# ---- divergence --------------------------------------------------------------------------------
SYNCHRONISED = {
    "vote": ("setp.ge.u32 %p2, %r0, 0; vote.sync.ballot.b32 %r1, %p2, -1;", lambda n: (1 << n) - 1),
    "match": ("match.any.sync.b32 %r1, %r0, -1;", lambda n: (1 << n) - 1),
    "redux": ("redux.sync.add.u32 %r1, 1, -1;", lambda n: n),
    "shfl": (
        "add.u32 %r3, %r0, 7; shfl.sync.bfly.b32 %r1, %r3, 1, 31, -1; sub.u32 %r1, %r1, %r0;",
        lambda n: 7,
    ),
}
"""An instruction that needs all lanes in the same turn of a loop, and its result for n lanes."""


@pytest.mark.parametrize("name", SYNCHRONISED)
def test_lanes_meet_in_a_loop_with_two_ways_back(name: str) -> None:
    """Lanes that go back by one way wait for those that go by the other."""
    ask, answer = SYNCHRONISED[name]
    text = f"""and.b32 %r2, %i, 1; setp.ne.u32 %p0, %r2, 0; mov.u32 %r0, 0; mov.u32 %d0, 0;
        TURN: {ask} add.u32 %d0, %d0, %r1; add.u32 %r0, %r0, 1; @%p0 bra ODD;
        setp.lt.u32 %p1, %r0, 4; @%p1 bra TURN; bra END;
        ODD: setp.lt.u32 %p1, %r0, 4; @%p1 bra TURN;
        END:"""
    (got,) = run(text, [words(50)], [np.uint32])
    assert got.tolist() == [4 * answer(n) & FULL for n in (32, 18) for _ in range(n)]


GROUPS = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
extern "C" __global__ void groups(const int* x, int* y, int* counter, int* out) {
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    auto tile = cg::tiled_partition<8>(block);
    int i = block.thread_rank();
    y[i] = cg::reduce(warp, x[i], cg::plus<int>());
    y[128 + i] = cg::reduce(tile, x[i], cg::greater<int>());
    y[256 + i] = cg::inclusive_scan(tile, x[i]);
    if (x[i] % 3 == 0) {  // one atomic for all lanes that are here
        auto active = cg::coalesced_threads();
        int base = 0;
        if (active.thread_rank() == 0) base = atomicAdd(counter, active.size());
        out[active.shfl(base, 0) + active.thread_rank()] = x[i];
    }
    auto label = cg::labeled_partition(cg::coalesced_threads(), x[i] % 4);
    y[384 + i] = cg::reduce(label, 1, cg::plus<int>());
}
"""


def test_cooperative_groups() -> None:
    x = rng.integers(0, 100, 128).astype(np.int32)
    y, counter, out = np.zeros(512, np.int32), np.zeros(1, np.int32), np.zeros(128, np.int32)
    weft.cuda(GROUPS).groups[1, 128](x, y, counter, out)
    warps, tiles = x.reshape(4, 32), x.reshape(16, 8)
    chosen = x[x % 3 == 0]
    assert (y[:128] == warps.sum(1).repeat(32)).all()
    assert (y[128:256] == tiles.max(1).repeat(8)).all()
    assert (y[256:384] == tiles.cumsum(1).reshape(-1)).all()
    assert counter[0] == len(chosen) and (out[: len(chosen)] == chosen).all()
    same = (warps[:, :, None] % 4 == warps[:, None, :] % 4).sum(2)
    assert (y[384:] == same.reshape(-1)).all()
