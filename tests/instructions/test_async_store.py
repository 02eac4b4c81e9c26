"""st.async and red.async: what lands, what the mbarrier counts, and what the tools see."""

from __future__ import annotations

import numpy as np
import pytest

import weft

BYTES = "shared::cluster.mbarrier::complete_tx::bytes"


def kernel(issue: str, nbytes: int, *, waits: bool = True, shift: int = 0) -> weft.Kernel:
    """Warp 0 issues; thread 32 of the other warp waits for `nbytes` and copies 128 words out."""
    wait = "mbarrier.try_wait.parity.shared::cta.b64 %p, [bar], 0; @!%p bra AGAIN;"
    text = f"""
.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out) {{
    .shared .align 8 .b64 bar;
    .shared .align 16 .b8 data[512];
    .reg .pred %p; .reg .b32 %t, %a, %m, %v<4>, %i; .reg .b64 %o, %w<2>;
    ld.param.u64 %o, [out];
    cvta.to.global.u64 %o, %o;
    mov.u32 %t, %tid.x;
    mov.u32 %a, data;
    shl.b32 %i, %t, 2;
    add.u32 %i, %a, %i;
    st.shared.u32 [%i], 7;
    st.shared.u32 [%i+256], 7;
    setp.ne.u32 %p, %t, 32;
    @%p bra READY;
    mbarrier.init.shared::cta.b64 [bar], 1;
    mbarrier.arrive.expect_tx.shared::cta.b64 %w0, [bar], {nbytes};
READY:
    bar.sync 0;
    setp.ge.u32 %p, %t, 32;
    @%p bra OTHERS;
    mov.u32 %m, bar;
    shl.b32 %i, %t, 4;
    add.u32 %i, %a, %i;
    add.u32 %v0, %t, 100; add.u32 %v1, %t, 200; add.u32 %v2, %t, 300; add.u32 %v3, %t, 400;
    cvt.u64.u32 %w0, %t;
    add.u32 %i, %i, {shift};
    {issue}
    ret;
OTHERS:
    setp.ne.u32 %p, %t, 32;
    @%p bra DONE;
AGAIN:
    {wait if waits else ""}
    mov.u32 %v0, 0;
COPY:
    ld.shared.u32 %v1, [%a];
    st.global.u32 [%o], %v1;
    add.u32 %a, %a, 4; add.u64 %o, %o, 4; add.u32 %v0, %v0, 1;
    setp.lt.u32 %p, %v0, 128;
    @%p bra COPY;
DONE:
    ret;
}}
"""
    return weft.load_ptx(text, device="sim:h200").kernel("k")


VECTOR = f"st.async.weak.{BYTES}.v4.u32 [%i], {{%v0, %v1, %v2, %v3}}, [%m];"
ADD = f"red.async.relaxed.cluster.{BYTES}.add.u32 [%a], %v0, [%m];"


def words(issue: str, nbytes: int) -> np.ndarray:
    out = np.zeros(128, np.uint32)
    kernel(issue, nbytes)[1, 64](out)
    return out


def test_a_vector_of_each_lane_has_landed_when_the_barrier_completes() -> None:
    lanes = np.arange(32, dtype=np.uint32)
    expected = np.stack([lanes + 100 * i for i in (1, 2, 3, 4)], axis=1).ravel()
    np.testing.assert_array_equal(words(VECTOR, 32 * 16), expected)


def test_a_double_word() -> None:
    got = words(f"st.async.{BYTES}.b64 [%i], %w0, [%m];", 32 * 8).reshape(32, 4)
    np.testing.assert_array_equal(got[:, 0], np.arange(32))
    np.testing.assert_array_equal(got[:, 1], 0)
    np.testing.assert_array_equal(got[:, 2:], 7)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [("add.u32", 7 + sum(range(100, 132))), ("min.s32", 7), ("max.u32", 131), ("inc.u32", 39)],
)
def test_a_reduction(operation: str, expected: int) -> None:
    issue = f"red.async.relaxed.cluster.{BYTES}.{operation} [%a], %v0, [%m];"
    assert words(issue, 32 * 4)[0] == expected


def test_a_wait_for_more_bytes_is_a_deadlock() -> None:
    with pytest.raises(weft.Deadlock, match="mbarrier"):
        words(ADD, 32 * 4 + 1)


@pytest.mark.parametrize(("issue", "nbytes"), [(VECTOR, 16), (ADD.replace("%a]", "%i]"), 4)])
def test_an_address_out_of_bounds_is_a_write(issue: str, nbytes: int) -> None:
    with pytest.raises(weft.IllegalAddress, match=f"out-of-bounds write of {nbytes} bytes") as e:
        kernel(issue, 32 * nbytes, shift=4096)[1, 64](np.zeros(128, np.uint32))
    assert e.value.space == "shared"


def test_a_profile_counts_the_stores() -> None:
    p = weft.profile(kernel(VECTOR, 32 * 16)[1, 64], np.zeros(128, np.uint32))
    (stored,) = (i for i in p.instructions if i.opcode.startswith("st.async"))
    assert stored.work == ("memory", 1)
    assert [(a.space, a.kind, a.bytes) for a in stored.accesses] == [
        ("cluster", "async store", 32 * 16)
    ]


def test_the_sanitizer_accepts_a_reader_that_waits() -> None:
    with weft.sanitize() as report:
        kernel(VECTOR, 32 * 16)[1, 64](np.zeros(128, np.uint32))
    assert not report.findings


def test_the_sanitizer_reports_a_reader_that_does_not_wait() -> None:
    with pytest.raises(weft.SanitizerError, match="data race"), weft.sanitize():
        kernel(VECTOR, 32 * 16, waits=False)[1, 64](np.zeros(128, np.uint32))


def test_forms_that_ptx_does_not_have() -> None:
    for text in (
        f"st.async.{BYTES}.v4.u32 [%i], {{%v0, %v1}}, [%m];",
        f"st.async.{BYTES}.b16 [%i], %v0, [%m];",
        f"red.async.relaxed.cluster.{BYTES}.and.u32 [%a], %v0, [%m];",
        f"st.async.{BYTES}.u32 [%i], %v0;",
    ):
        with pytest.raises(weft.PtxError):
            kernel(text, 4)[1, 64](np.zeros(128, np.uint32))
