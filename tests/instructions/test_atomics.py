"""atom and red: recorded bits, colliding lanes, many blocks, and what must be refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft
from recorded import sample
from threads import run
from weft.ptx import isa

rng = np.random.default_rng(11)
KINDS = {"b16": np.uint16, "b32": np.uint32, "b64": np.uint64}
RECORDED = [
    "atom.global.add.f32", "atom.global.add.noftz.f16x2", "atom.global.add.noftz.bf16x2",
    "atom.global.add.noftz.f16", "atom.global.add.noftz.bf16", "atom.global.add.f64",
    "atom.shared.add.f32", "atom.shared.add.noftz.f16x2", "atom.shared.add.noftz.bf16x2",
    "atom.shared.add.noftz.f16", "atom.shared.add.noftz.bf16", "atom.shared.add.f64",
    "red.global.add.f32", "atom.global.add.v2.f32", "atom.inc.u32", "atom.dec.u32",
]  # fmt: skip


def _place(space: str, generic: bool, size: int) -> tuple[str, str]:
    """Code for the address of a thread's own place, and the register that holds it."""
    offset = f"mul.wide.u32 %l0, %i, {size};"
    if space == "global":
        return f"{offset} add.u64 %l1, %memory, %l0;", "%l1"
    own = f"{offset} mov.u64 %l2, pool; add.u64 %l1, %l2, %l0;"
    return (own + "cvta.shared.u64 %l1, %l1;" if generic else own), "%l1"


@pytest.mark.parametrize("generic", [False, True])
@pytest.mark.parametrize("name", RECORDED)
def test_bits_as_recorded(name: str, generic: bool) -> None:
    """Each thread's own place holds the first operand; the second is added to it."""
    got = sample(name)
    memory, value = (np.ascontiguousarray(x) for x in got.inputs)
    size, kind = memory.itemsize, memory.dtype.type
    base, *parts = [x for x in name.split(".") if x not in ("global", "shared")]
    space = "shared" if ".shared." in name else "global"
    word = "" if generic else f".{space}"
    opcode = ".".join([base + word, *parts])
    count = 2 if "v2" in parts else 1
    code, at = _place(space, generic, size * count)
    given, dest = ("{%a1, %a1}", "{%d1, %r8}, ") if count == 2 else ("%a1", "%d1, ")
    bits = f"b{8 * size}"
    stores = "".join(f"st{word}.{bits} [{at}+{i * size}], %a0;" for i in range(count))
    text = f"""{code} {stores}
        {opcode} {"" if base == "red" else dest}[{at}], {given};
        ld{word}.{bits} %d0, [{at}+{(count - 1) * size}];"""
    for start in range(0, len(memory), 1024):
        a, b = memory[start : start + 1024], value[start : start + 1024]
        room = np.zeros(len(a) * count, kind)
        new, old = run(text, [a, b], [kind, kind], memory=room, shared=8192)
        assert (new == got.output[start : start + 1024]).all()
        if base != "red":
            assert (old == a).all()


# ---- integer operations ------------------------------------------------------------------------
def signed(v: int, bits: int) -> int:
    return v - (1 << bits) if v >> (bits - 1) else v


def model(op: str, kind: str) -> Callable[[int, int], int]:
    bits = int(kind[1:])
    mask = (1 << bits) - 1
    key: Callable[[int], int] = (lambda v: signed(v, bits)) if kind[0] == "s" else (lambda v: v)
    return {
        "add": lambda o, x: (o + x) & mask,
        "min": lambda o, x: min(o, x, key=key),
        "max": lambda o, x: max(o, x, key=key),
        "and": lambda o, x: o & x,
        "or": lambda o, x: o | x,
        "xor": lambda o, x: o ^ x,
        "exch": lambda o, x: x,
        "inc": lambda o, x: 0 if o >= x else o + 1,
        "dec": lambda o, x: x if o == 0 or o > x else o - 1,
    }[op]


INTEGERS = [
    *(("add", k) for k in ("u32", "s32", "u64")),
    *((op, k) for op in ("min", "max") for k in ("u32", "s32", "u64", "s64")),
    *((op, k) for op in ("and", "or", "xor", "exch") for k in ("b32", "b64")),
    ("inc", "u32"),
    ("dec", "u32"),
]
PLACES = {"one place": lambda i: 0 * i, "own place": lambda i: i, "few places": lambda i: i * 7 % 5}


def values(n: int, kind: str) -> np.ndarray:
    bits = int(kind[1:])
    x = rng.integers(0, 1 << bits, n, dtype=np.uint64)
    x[::3] %= np.uint64(9)
    return x.astype({32: np.uint32, 64: np.uint64}[bits])


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize(("op", "kind"), INTEGERS)
def test_lanes_are_served_in_order(op: str, kind: str, space: str) -> None:
    """Every second instruction is guarded; 40 threads are a warp and a quarter of one."""
    n, size = 40, int(kind[1:]) // 8
    step = model(op, kind)
    for where in PLACES.values():
        index = where(np.arange(n, dtype=np.uint32)).astype(np.uint32)
        x, start = values(n, kind), values(n, kind)
        run_it = (x & 1).astype(bool)
        place = "mov.b64 %l1, %l5;" if not index.any() else "add.u64 %l1, %l5, %l0;"
        fill = "" if space == "global" else _shared_copy(size, into=True)
        back = "" if space == "global" else _shared_copy(size, into=False)
        red = "" if op == "exch" else f"red.{space}.{op}.{kind} [%l1], %a0;"
        text = f"""{fill} {"mov.b64 %l5, %memory;" if space == "global" else ""}
            mul.wide.u32 %l0, %a1, {size}; {place}
            atom.{space}.{op}.{kind} %d0, [%l1], %a0;
            bar.sync 0;
            cvt.u32.{kind.replace("b", "u")} %r3, %a0; and.b32 %r3, %r3, 1;
            setp.ne.u32 %p0, %r3, 0;
            @%p0 atom.{space}.{op}.{kind} %d1, [%l1], %a0;
            bar.sync 0;
            {red} @%p0 bra END; {red}
            END: bar.sync 0; {back}"""
        memory = start.copy()
        old, guarded = run(text, [x, index], [x.dtype.type] * 2, memory=memory, shared=1024)
        want = [int(v) for v in start]
        for i in range(n):
            assert old[i] == want[index[i]]
            want[index[i]] = step(want[index[i]], int(x[i]))
        for i in range(n):
            if run_it[i]:
                assert guarded[i] == want[index[i]]
                want[index[i]] = step(want[index[i]], int(x[i]))
            else:
                assert guarded[i] == int.from_bytes(b"\xee" * size, "little")
        if red:
            twice = [*range(n), *(i for i in range(n) if not run_it[i])]
            if op in ("inc", "dec"):  # not the same in every order: warps and branches come apart
                continue
            for i in twice:
                want[index[i]] = step(want[index[i]], int(x[i]))
        assert [int(v) for v in memory] == want


def _shared_copy(size: int, *, into: bool) -> str:
    """Thread i's element between %memory and the pool; %l5 is the pool's address."""
    bits = f"b{8 * size}"
    at = f"""mov.u64 %l5, pool; mul.wide.u32 %l6, %i, {size};
             add.u64 %l7, %l6, %l5; add.u64 %l8, %l6, %memory;"""
    reg = "%r9" if size == 4 else "%l9"
    if into:
        return f"{at} ld.global.{bits} {reg}, [%l8]; st.shared.{bits} [%l7], {reg}; bar.sync 0;"
    return f"{at} ld.shared.{bits} {reg}, [%l7]; st.global.{bits} [%l8], {reg};"


@pytest.mark.parametrize("bits", [16, 32, 64])
@pytest.mark.parametrize("space", ["global", "generic"])
def test_compare_and_swap_takes_turns(bits: int, space: str) -> None:
    """A lock taken by the lane whose turn it is: lane i swaps i for i + 1."""
    kind = KINDS[f"b{bits}"]
    place = np.zeros(1, kind)
    mine = np.arange(32, dtype=kind)
    word = "" if space == "generic" else ".global"
    text = f"atom{word}.cas.b{bits} %d0, [%memory], %a0, %a1;"
    (old,) = run(text, [mine, mine + kind(1)], [kind], memory=place)
    assert old.tolist() == list(range(32)) and place[0] == 32


def test_float_sums_at_one_place_are_made_lane_by_lane() -> None:
    x = rng.standard_normal(96).astype(np.float32)
    total = np.zeros(1, np.float32)
    text = """mov.b64 %l1, %memory; atom.global.add.f32 %d0, [%l1], %a0;
              setp.lt.f32 %p0, %a0, 0f00000000; @%p0 red.global.add.f32 [%l1], %a0;"""
    (old,) = run(text, [x], [np.float32], memory=total)
    acc = np.float32(0)
    for w in range(0, 96, 32):
        for i in range(w, w + 32):
            assert old[i] == acc
            acc += x[i]
        for i in range(w, w + 32):
            acc += x[i] if x[i] < 0 else np.float32(0)
    assert total[0] == acc


ORDERS = [
    "atom.add.acquire.cta.u32", "atom.add.relaxed.cta.u32", "atom.add.release.gpu.u32",
    "atom.global.gpu.acq_rel.add.u32", "atom.global.sys.add.u32", "atom.relaxed.gpu.global.add.u32",
    "atom.global.gpu.relaxed.add.u32", "atom.add.u32",
]  # fmt: skip


@pytest.mark.parametrize("opcode", ORDERS)
def test_words_may_stand_in_any_order(opcode: str) -> None:
    place = np.array([5], np.uint32)
    (old,) = run(
        f"{opcode} %d0, [%memory], %a0;", [np.ones(3, np.uint32)], [np.uint32], memory=place
    )
    assert old.tolist() == [5, 6, 7] and place[0] == 8


@pytest.mark.parametrize(
    "opcode",
    [
        "red.global.gpu.relaxed.add.f32", "red.and.release.cta.b32", "atom.or.acq_rel.cta.b32",
        "atom.global.gpu.acq_rel.exch.b32", "atom.global.acq_rel.gpu.cas.b32",
        "atom.global.sys.add.f64", "atom.shared::cta.exch.b64", "atom.global.exch.b128",
        "red.global.add.noftz.f16x2", "red.global.v4.f32.add", "atom.global.cas.b16",
    ],
)  # fmt: skip
def test_every_form_has_a_row(opcode: str) -> None:
    assert isa.lookup(opcode.split(".")) is not None


@pytest.mark.parametrize("opcode", ["atom.add.b32", "red.exch.b32", "atom.inc.u64", "atom.and.u32"])
def test_forms_that_do_not_exist(opcode: str) -> None:
    assert isa.lookup(opcode.split(".")) is None


def test_wide_exchange() -> None:
    place = np.array([1, 2], np.uint64)
    text = """.reg .b128 %q<4>; mov.b128 %q0, {%a0, %a0};
              atom.global.exch.b128 %q1, [%memory], %q0; mov.b128 {%d0, %d1}, %q1;"""
    low, high = run(text, [np.full(1, 9, np.uint64)], [np.uint64] * 2, memory=place)
    assert (low[0], high[0]) == (1, 2) and place.tolist() == [9, 9]


# ---- whole kernels -----------------------------------------------------------------------------
SOURCE = r"""
extern "C" __global__ void histogram(const unsigned* x, unsigned* bins, int n) {
    __shared__ unsigned local[64];
    for (int i = threadIdx.x; i < 64; i += blockDim.x) local[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&local[x[i] & 63], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < 64; i += blockDim.x) atomicAdd(&bins[i], local[i]);
}
extern "C" __global__ void sums(const float* x, float* out, double* wide, int* top, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    atomicAdd(out, x[i]);
    atomicAdd(wide, (double)x[i]);
    atomicMax(top, (int)x[i]);
}
extern "C" __global__ void last(unsigned* tickets, unsigned* out) {
    __shared__ bool mine;
    if (threadIdx.x == 0) mine = atomicInc(tickets, gridDim.x - 1) == gridDim.x - 1;
    __syncthreads();
    if (mine && threadIdx.x == 0) atomicExch(out, blockIdx.x + 1000);
}
extern "C" __global__ void locked(int* lock, int* count, int times) {
    if (threadIdx.x % 32) return;
    for (int k = 0; k < times; k++) {
        while (atomicCAS(lock, 0, 1)) {}
        *(volatile int*)count = *(volatile int*)count + 1;
        __threadfence();
        atomicExch(lock, 0);
    }
}
"""


@pytest.fixture(scope="module")
def kernels() -> weft.Module:
    return weft.cuda(SOURCE)


def test_histogram(kernels: weft.Module) -> None:
    x = rng.integers(0, 1 << 20, 50_000, dtype=np.uint32)
    bins = np.zeros(64, np.uint32)
    kernels.histogram[16, 200](x, bins, len(x))
    assert (bins == np.bincount(x & 63, minlength=64)).all()


def test_sums_over_many_blocks(kernels: weft.Module) -> None:
    x = rng.integers(0, 50, 10_000).astype(np.float32)
    out, wide, top = np.zeros(1, np.float32), np.zeros(1), np.zeros(1, np.int32)
    kernels.sums[weft.cdiv(len(x), 96), 96](x, out, wide, top, len(x))
    assert out[0] == wide[0] == x.sum(dtype=np.float64) and top[0] == x.max()


def test_the_last_block_is_one(kernels: weft.Module) -> None:
    tickets, out = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    kernels.last[37, 64](tickets, out)
    assert tickets[0] == 0 and 1000 <= out[0] < 1037


def test_a_spin_lock_keeps_blocks_apart(kernels: weft.Module) -> None:
    lock, count = np.zeros(1, np.int32), np.zeros(1, np.int32)
    kernels.locked[24, 64](lock, count, 5)
    assert count[0] == 24 * 2 * 5 and lock[0] == 0


def test_a_wild_address_is_an_error_with_its_lane() -> None:
    where = np.arange(32, dtype=np.uint32)
    where[13] = 1 << 20
    text = """mul.wide.u32 %l0, %a0, 4; add.u64 %l1, %memory, %l0;
              atom.global.add.u32 %d0, [%l1], 1;"""
    with pytest.raises(weft.errors.Error) as e:
        run(text, [where], [np.uint32], memory=np.zeros(32, np.uint32))
    assert "13" in str(e.value)
