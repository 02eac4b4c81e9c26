"""`wgmma` against an H200 (scripts/record_warpgroups.py), and what it refuses."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import warpgroup_forms as forms
import weft
from recorded import GOLDEN
from warpgroup_forms import Layout, WarpgroupProbe

SAMPLES = np.load(GOLDEN / "warpgroup_samples.npz")
SUMS = np.load(GOLDEN / "warpgroup_sums.npz")
NUMERIC, LAYOUTS = forms.numeric(), forms.layouts()
PLAIN = WarpgroupProbe(8, "bf16", "bf16", "f32", Layout(), Layout(start=2048), 2560, tiles=1)


@cache
def kernel(name: str, text: str) -> weft.Kernel:
    return weft.load_ptx(text).kernel(name)


def simulated(probe: WarpgroupProbe, words: np.ndarray, threads: int = forms.LANES) -> np.ndarray:
    """Results of a probe on the simulated GPU."""
    out = np.zeros((len(words), probe.registers, forms.LANES), np.uint32)
    of = kernel(forms.entry(probe), forms.module([probe]))
    of[len(words), threads](words, out, *forms.descriptors(probe))
    return out


def checked(probe: WarpgroupProbe) -> None:
    """Compare all results of a probe with those of an H200."""
    words = forms.operands(probe)
    if probe.name in SAMPLES.files:
        want = SAMPLES[probe.name]
        got = simulated(probe, words[: len(want)].copy())
        np.testing.assert_array_equal(got, want, err_msg=probe.name)
    row = NUMERIC.index(probe)
    assert SUMS["numeric"][row].tolist() == [probe.seed, *forms.checksums(simulated(probe, words))]


def ids(probe: WarpgroupProbe) -> str:
    return probe.opcode.partition("aligned.")[2] + f"-{probe.seed:08x}"


@pytest.mark.parametrize("probe", NUMERIC[::11], ids=ids)
def test_recorded_products(probe: WarpgroupProbe) -> None:
    checked(probe)


@pytest.mark.slow
@pytest.mark.parametrize("probe", NUMERIC, ids=ids)
def test_all_recorded_products(probe: WarpgroupProbe) -> None:
    checked(probe)


@pytest.mark.parametrize("name", sorted({forms.entry(p) for p in LAYOUTS}))
def test_recorded_layouts(name: str) -> None:
    """Every element is read from the address that an H200 reads."""
    want = dict(SUMS["layouts"].tolist())
    for probe in LAYOUTS:
        if forms.entry(probe) == name:
            (d,) = simulated(probe, forms.operands(probe))
            found = forms.read_addresses(probe, d)
            assert forms.checksum(found) == want[probe.seed], f"{probe.name}: {found[:16]}"


def test_the_document_says_how_many() -> None:
    text = " ".join((GOLDEN.parents[2] / "docs" / "instructions.md").read_text().split())
    results = round(sum(64 * p.n * p.tiles for p in NUMERIC) / 1e6)
    assert f"`wgmma`: {len(NUMERIC)} forms with {results} million results" in text
    assert f"{len(LAYOUTS)} descriptors" in text


# ---- late completion ---------------------------------------------------------------------------
@pytest.mark.parametrize("near", [True, False])
def test_late_products(near: bool) -> None:
    """Accumulators keep their values, and shared memory is read, until the wait for the group."""
    probe = replace(PLAIN, left=PLAIN.left if near else None)
    words, first = forms.operands(probe), simulated(probe, forms.operands(probe))
    old = words[:, -probe.registers :]
    product, wait = forms.instruction(probe), "wgmma.wait_group.sync.aligned 0;"
    commit = "wgmma.commit_group.sync.aligned;"
    # The second product adds to the first one; at least the first is complete.
    twice = f"{commit} {product} {commit} wgmma.wait_group.sync.aligned 1;"
    overwritten = "st.shared.b32 [%x2], 0;" if near else "mov.b32 %a0, 0;"
    rows = [
        ("waits", [], first),
        ("no wait", [(wait, "")], old),
        ("one of two", [(f"{commit} {wait}", twice)], first),
        ("both", [(f"{commit} {wait}", twice.replace(" 1;", " 0;"))], None),
        ("overwritten", [(commit, f"{commit} mov.u64 %x2, near; {overwritten}")], None),
    ]
    plain = {}
    for name, changes, _ in rows:
        plain[name] = _run(probe, name, changes, words)
    for name, changes, want in rows:
        with weft.schedule("last"):
            got = _run(probe, name, changes, words)
        if want is not None:
            np.testing.assert_array_equal(got, want, err_msg=name)
        assert np.array_equal(got, plain[name]) == (name in ("waits", "both")), name


def _run(probe: WarpgroupProbe, name: str, changes: Any, words: np.ndarray) -> np.ndarray:
    """Results of a changed kernel."""
    text = forms.kernel(probe, name.replace(" ", "_"))
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    out = np.zeros((len(words), probe.registers, forms.LANES), np.uint32)
    of = weft.load_ptx(forms.HEAD + text).kernel(name.replace(" ", "_"))
    of[len(words), forms.LANES](words, out, *forms.descriptors(probe))
    return out


ALONE = r"""
__global__ void alone(const unsigned long long* of, float* out) {
    __shared__ alignas(1024) unsigned short tile[4096];
    for (int i = threadIdx.x; i < 4096; i += 128) tile[i] = 0x3f80;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    unsigned long long a = of[0] | ((unsigned)__cvta_generic_to_shared(tile) & 0x3ffff) >> 4;
    float d[4] = {};
    asm volatile("wgmma.fence.sync.aligned;\n"
                 "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3}, %4, %4, 1, 1, 1, 0, 0;\n"
                 "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a) : "memory");
    if (threadIdx.x < 32)  // the first warp reuses the tile: all four have read it
        for (int i = threadIdx.x; i < 4096; i += 32) tile[i] = 0;
    for (int i = 0; i < 4; i++) out[threadIdx.x * 4 + i] = d[i];
}
"""


def test_a_product_ends_for_all_warps_at_once() -> None:
    """A warp that has waited may overwrite what the others of the warpgroup multiply."""
    form = np.array([1 << 16 | 64 << 32 | 1 << 62], np.uint64)
    kernel = weft.cuda(ALONE, device="sim:h200").alone
    for schedule in ("first", "last", "random:1", "random:2", None):
        out = np.zeros((128, 4), np.float32)
        with weft.schedule(schedule) if schedule else contextlib.nullcontext():
            kernel[1, 128](form, out)
        np.testing.assert_array_equal(out, 16.0, err_msg=str(schedule))


# ---- refused ---------------------------------------------------------------------------------
TID = "mov.u32 %t, %tid.x; "
WRONG_AT_RUN_TIME = [
    # what, code before the product, threads, the descriptors; in the message
    ("lanes", TID + "and.b32 %n, %t, 1; setp.ne.u32 %p, %n, 0; @%p bra end;",
     128, {}, ("executed by a part of a warp", "lanes 0x55555555", "all 32 lanes")),
    ("warps", "", 96, {}, ("in no warpgroup", "warp 0 of a block of 3 warps", "four consecutive")),
    ("lane's descriptor", TID + "cvt.u64.u32 %x2, %t; add.s64 %left, %left, %x2;",
     128, {}, ("descriptor of A that differs between the lanes",)),
    ("warp's descriptor", TID + "shr.u32 %n, %t, 5; cvt.u64.u32 %x2, %n; "
     "add.s64 %right, %right, %x2;",
     128, {}, ("differs between the warps", "warp 1", "all four warps")),
    ("end", "", 128, {"right": Layout(start=2432)}, ("reads B outside", "2560 bytes")),
    ("left end", "", 128, {"left": Layout(stride=1024)}, ("reads A outside", "2560 bytes")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "threads", "change", "said"),
    [x[1:] for x in WRONG_AT_RUN_TIME],
    ids=[x[0] for x in WRONG_AT_RUN_TIME],
)
def test_faults(code: str, threads: int, change: dict[str, Layout], said: tuple[str]) -> None:
    probe = replace(PLAIN, **change)
    text = forms.module([probe]).replace("  ret;", "end: ret;")
    text = text.replace("wgmma.fence", code + "wgmma.fence", 1)
    out = np.zeros((1, probe.registers, forms.LANES), np.uint32)
    with pytest.raises(weft.errors.DeviceError) as caught:
        of = weft.load_ptx(text).kernel(forms.entry(probe))
        of[1, threads](forms.operands(probe), out, *forms.descriptors(probe))
    message = str(caught.value)
    assert "PTX line" in message and "wgmma.mma_async" in message
    assert all(x in message for x in said), message


WRONG_IN_TEXT = [
    ("too few registers", "%d0, ", "", "allowed: 4 for this shape"),
    ("a register twice", "%d0, ", "%d1, ", "4 different registers"),
    ("a descriptor of 32 bits", "%left, %right", "%n, %right", "64-bit register"),
    ("a scale", ", %p, 1, 1", ", %p, 2, 1", "1, -1"),
    ("no order of A", "1, 1, 0, 0", "1, 1, 0", "A is in shared memory"),
    ("columns", "m64n8k16", "m64n12k16", ".shape m64n8k16 m64n16k16 m64n24k16"),
    ("accumulators", ".f32.bf16", ".f16.bf16", ".dtype.atype.btype with .dtype f32"),
]


@pytest.mark.parametrize(
    ("old", "new", "said"), [x[1:] for x in WRONG_IN_TEXT], ids=[x[0] for x in WRONG_IN_TEXT]
)
def test_wrong_text(old: str, new: str, said: str) -> None:
    text = forms.module([PLAIN])
    line = next(x for x in text.splitlines() if "mma_async" in x)
    assert old in line
    out = np.zeros((1, PLAIN.registers, forms.LANES), np.uint32)
    with pytest.raises(weft.errors.PtxError) as caught:
        of = weft.load_ptx(text.replace(line, line.replace(old, new, 1))).kernel(forms.entry(PLAIN))
        of[1, forms.LANES](forms.operands(PLAIN), out, *forms.descriptors(PLAIN))
    assert "wgmma" in str(caught.value) and said in str(caught.value), str(caught.value)


def test_a_generic_address_has_the_low_bits_of_a_shared_one() -> None:
    """As on hardware: programs make descriptors of tiles from either."""
    text = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry low(.param .u64 out)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<8>;
    .shared .align 128 .b8 before[128];
    .shared .align 128 .b8 tile[3072];
    mov.u64 %rd1, tile;
    cvta.shared.u64 %rd2, %rd1;
    sub.s64 %rd3, %rd2, %rd1;
    and.b64 %rd3, %rd3, 0x3ffff;
    mov.u32 %r1, %ctaid.x;
    ld.param.u64 %rd4, [out];
    mad.wide.u32 %rd5, %r1, 8, %rd4;
    st.global.u64 [%rd5], %rd3;
    wgmma.wait_group.sync.aligned 0;
    ret;
}
"""
    out = np.full(8, -1, np.int64)
    weft.load_ptx(text).kernel("low")[8, 128](out)
    assert not out.any()
