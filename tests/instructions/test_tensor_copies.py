"""Tensor copies (TMA), against a model of index arithmetic and recorded answers of an H200.

`tensor_probes.py` draws the cases, `tensor_boxes.py` is the model.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

import numpy as np
import pytest

import tensor_boxes
import tensor_probes
import tensor_slices
import weft
from recorded import GOLDEN
from tensor_probes import Case, request
from weft.device.base import Allocation
from weft.device.tensor_map_encoding import DRIVER_TYPES, encode
from weft.device.tensor_map_limits import problems

with np.load(GOLDEN / "tensor_copies.npz") as _archive:
    RECORDED = {name: _archive[name] for name in _archive.files}
CASES = tensor_probes.cases()
with np.load(GOLDEN / "tensor_slices.npz") as _archive:
    SLICES = {name: _archive[name] for name in _archive.files}
SLICED = tensor_slices.cases()
QUICK_KERNELS = ("load_tile_2", "load_tile_4", "store_tile_3", "add_tile_2", "load_im2col_4")
"""Each is compiled by itself."""


def aligned(data: np.ndarray, to: int = 128) -> np.ndarray:
    room = np.zeros(len(data) + to, np.uint8)
    start = -room.ctypes.data % to
    copy = room[start : start + len(data)]
    copy[:] = data
    return copy


@cache
def kernel(name: str) -> weft.Kernel:
    source = tensor_probes.source([name])
    return weft.cuda(source, arch="sm_90a", device="sim:h200").kernel(name)


def simulated(case: Case) -> tuple[np.ndarray, int]:
    """Shared memory after a load, or the tensor after a store; whether the mbarrier completed."""
    memory = aligned(tensor_probes.tensor(case))
    made = encode(request(tensor_probes.encoding(case, memory.ctypes.data + case.origin)))
    out, seen = np.zeros(case.window, np.uint8), np.zeros(4, np.uint32)
    kernel(case.kernel)[1, 128, case.window + 1024].reaching(
        [Allocation(memory.ctypes.data, memory.nbytes, True, "tensor")],
        aligned(np.frombuffer(made, np.uint8)), tensor_probes.staged(case),
        np.array([*case.at, *case.offsets], np.int32), out, seen, case.window, case.shift,
        case.nbytes,
    )  # fmt: skip
    return out if case.kind == "load" else memory, int(seen[0])


def has_model(case: Case) -> bool:
    """Sums of floating-point numbers are compared with recorded ones."""
    whole = case.kind in ("load", "store") or "float" not in case.dtype
    return whole and not case.interleave and not is_refused(case)


def is_refused(case: Case) -> bool:
    """Return whether the driver or the H200 has refused the case."""
    return bool(RECORDED["ended"][CASES.index(case)] < 0)


# ---- data --------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", QUICK_KERNELS)
def test_copies_move_what_the_model_says(name: str, seed: str) -> None:
    """Cases of the seed of this run, and the recorded ones of this kernel."""
    kind, mode, rank = name.rsplit("_", 2)
    rng = np.random.default_rng([int(seed), *name.encode()])
    draw = tensor_probes.tiled if mode == "tile" else tensor_probes.im2col
    listed = tensor_probes.REDUCTIONS.get(kind, " ".join(tensor_probes.DTYPES)).split()
    # The model computes no sums of floating-point numbers; an H200 has no xor of int64.
    dtypes = [d for d in listed if kind in ("load", "store") or d in ("uint32", "int32", "uint64")]
    drawn = [
        draw(rng, f"random{i}", kind, dtypes[i % len(dtypes)], rank=int(rank)) for i in range(26)
    ]
    # The driver takes no empty box of pixels.
    drawn = [c for c in drawn if not list(problems(request(tensor_probes.encoding(c, 1 << 20))))]
    for case in [*drawn, *(c for c in CASES if c.kernel == name and has_model(c))]:
        found, completed = simulated(case)
        np.testing.assert_array_equal(found, tensor_boxes.expected(case), err_msg=repr(case))
        assert completed, case


@pytest.mark.parametrize("name", QUICK_KERNELS)
def test_recorded_copies(name: str) -> None:
    compare(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({c.kernel for c in CASES} - {*QUICK_KERNELS}))
def test_all_recorded_copies(name: str) -> None:
    compare(name)


def compare(name: str) -> None:
    """Compare the checksums of the cases of a kernel with those of an H200."""
    assert list(RECORDED["names"]) == [c.name for c in CASES]
    for number, case in enumerate(CASES):
        if case.kernel == name and RECORDED["ended"][number] >= 0:
            found, completed = simulated(case)
            assert tensor_probes.checksum(found) == RECORDED["sums"][number], case
            # The mbarriers of these slices expect the bytes of a plain box.
            assert case.interleave or completed == RECORDED["ended"][number], case


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({c.kernel for c in CASES} - {*QUICK_KERNELS}))
def test_all_kernels_against_the_model(name: str, seed: str) -> None:
    test_copies_move_what_the_model_says(name, seed)


def test_the_document_says_how_many() -> None:
    text = " ".join((GOLDEN.parents[2] / "docs" / "instructions.md").read_text().split())
    same = [c for c in CASES if not is_refused(c) and not c.interleave]
    kinds = [c.kind if c.kind in ("load", "store") else "reduction" for c in same]
    loads, stores, reductions = (kinds.count(x) for x in ("load", "store", "reduction"))
    columns = sum(c.lower is not None for c in same)
    assert f"of {len(same)} copies is equal: {loads} loads, {stores} stores" in text
    assert f"and {reductions} reductions, {columns} of them im2col" in text
    kinds = [c.kind if c.kind in ("load", "store") else "reduction" for c in SLICED]
    loads, stores, reductions = (kinds.count(x) for x in ("load", "store", "reduction"))
    columns = sum(c.lower is not None for c in SLICED)
    assert f"every byte of {len(SLICED)} copies is equal, {loads} loads, {stores} stores" in text
    assert f"and {reductions} reductions, {columns} of them im2col" in text
    encoded, replaced = (RECORDED["codes"] == 0).sum(), RECORDED["replaced"].shape[:2]
    assert f"{encoded} maps that the driver encoded and {replaced[0] * replaced[1]} results" in text


# ---- slices ------------------------------------------------------------------------------------
SLICED_KERNELS = sorted({c.kernel for c in SLICED})
QUICK_SLICES = ("load_tile_4", "store_tile_3", "load_im2col_4", "add_im2col_3")


def compare_slices(name: str) -> None:
    """Compare the copies of a kernel with those of an H200, and with the model."""
    assert list(SLICES["names"]) == [c.name for c in SLICED] and (SLICES["ended"] >= 0).all()
    for number, case in enumerate(SLICED):
        if case.kernel == name:
            found, completed = simulated(case)
            assert tensor_probes.checksum(found) == SLICES["sums"][number], case
            np.testing.assert_array_equal(found, tensor_boxes.expected(case), err_msg=repr(case))
            assert completed, case
            if case.kind == "load":
                assert SLICES["nbytes"][number] == case.nbytes, case


@pytest.mark.parametrize("name", QUICK_SLICES)
def test_recorded_slices(name: str) -> None:
    compare_slices(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in SLICED_KERNELS if n not in QUICK_SLICES])
def test_all_recorded_slices(name: str) -> None:
    compare_slices(name)


def test_maps_of_slices_are_those_of_the_driver() -> None:
    for number, case in enumerate(SLICED):
        made = encode(request(tensor_probes.encoding(case, 0)))
        assert made == bytes(SLICES["maps"][number]), case


# ---- maps --------------------------------------------------------------------------------------
def test_maps_are_those_of_the_driver() -> None:
    for number, given in enumerate(tensor_probes.encodings()):
        if RECORDED["codes"][number] == 0:
            assert encode(request(given)) == bytes(RECORDED["encoded"][number]), given


def test_the_driver_refuses_what_weft_refuses() -> None:
    """Two documented rules are weft's alone: this driver takes maps that break them."""
    lenient = ({"interleave": 2},)
    good = {True: tensor_probes.refused()[0], False: None}
    for number, given in enumerate(tensor_probes.refused()):
        if given.rank == 0 or given.fill == 2 or given.dtype not in DRIVER_TYPES:
            assert RECORDED["refused"][number]
            continue
        found = [p.what for p in problems(request(given))]
        changed = {
            f.name: getattr(given, f.name)
            for f in dataclasses.fields(given)
            if given.lower is None and getattr(given, f.name) != getattr(good[True], f.name)
        }
        if changed not in lenient:
            assert bool(found) == bool(RECORDED["refused"][number]), (given, found)


def test_replaced_fields_are_those_of_an_h200() -> None:
    module = weft.cuda(tensor_probes.replacing(), arch="sm_90a", device="sim:h200")
    plain = RECORDED["replaced_from"]
    starts = (plain, np.zeros(128, np.uint8), np.full(128, 255, np.uint8))
    for start, want in zip(starts, RECORDED["replaced"], strict=True):
        out = np.zeros(32 * len(tensor_probes.REPLACED), np.uint32)
        module.kernel("replaces")[1, 32](start.copy().view(np.uint32), out)
        found = out.view(np.uint8).reshape(-1, 128)
        for row, field in zip(range(len(found)), tensor_probes.REPLACED, strict=True):
            np.testing.assert_array_equal(found[row], want[row], err_msg=str(field))


# ---- maps as arguments -------------------------------------------------------------------------
ARGUMENTS = r"""
struct alignas(64) CUtensorMap { unsigned long long opaque[16]; };
__device__ void fetch(const void* map, float* y, int x, int row, int bytes, int shift) {
    __shared__ alignas(1024) unsigned char tile[2048];
    __shared__ unsigned long long full;
    unsigned bar = __cvta_generic_to_shared(&full), dst = __cvta_generic_to_shared(tile) + shift;
    unsigned done = 0;
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(bar));
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(bar), "r"(bytes));
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                     ".multicast::cluster.L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5, %6;"
                     :: "r"(dst), "l"(map), "r"(x), "r"(row), "r"(bar), "h"((short)1), "l"(0ull)
                     : "memory");
    }
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0, 1000;"
                     " selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(bar) : "memory");
    y[threadIdx.x] = ((float*)tile)[threadIdx.x];
}
extern "C" __global__ void by_value(const __grid_constant__ CUtensorMap map, float* y, int x,
                                    int row, int bytes, int shift) {
    asm volatile("prefetch.tensormap [%0];" :: "l"(&map));
    fetch(&map, y, x, row, bytes, shift);
}
extern "C" __global__ void by_address(const CUtensorMap* map, float* y, int x, int row, int bytes,
                                      int shift) {
    fetch(map, y, x, row, bytes, shift);
}
extern "C" __global__ void misuses(int step, int bytes) {
    __shared__ unsigned long long full;
    unsigned bar = __cvta_generic_to_shared(&full);
    if (step == 0) asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(bar), "r"(bytes));
    if (step == 1) asm volatile("mbarrier.init.shared.b64 [%0], 1;\n"
                                "mbarrier.arrive.shared.b64 _, [%0], %1;" :: "r"(bar), "r"(bytes));
    if (step == 2) asm volatile("mbarrier.init.shared.b64 [%0], 1;\n"
                                "mbarrier.expect_tx.relaxed.cta.shared.b64 [%0], %1;"
                                :: "r"(bar), "r"(bytes));
}
"""
TABLE = np.arange(16 * 32, dtype=np.float32).reshape(16, 32)
IMAGES = np.arange(2 * 3 * 6 * 10 * 8, dtype=np.float16).reshape(2, 3, 6, 10, 8)
"""NC/8HWC8: 24 channels of 6 x 10 pixels."""


@pytest.fixture(scope="module")
def module() -> weft.Module:
    return weft.cuda(ARGUMENTS, arch="sm_90a", device="sim:h200")


@pytest.mark.parametrize("name", ["by_value", "by_address"])
def test_a_map_is_an_argument(module: weft.Module, name: str) -> None:
    y = np.zeros(64, np.float32)
    made = weft.tensor_map(TABLE, box=(4, 16))
    module.kernel(name)[1, 64](made, y, 4, 1, made.nbytes, 0)
    np.testing.assert_array_equal(y.reshape(4, 16), TABLE[1:5, 4:20])


def test_maps_of_views_and_of_torch(module: weft.Module) -> None:
    torch = pytest.importorskip("torch")
    y = np.zeros(64, np.float32)
    for tensor in (TABLE[2:, :20], torch.from_numpy(TABLE)[2:, :20]):
        made = weft.tensor_map(tensor, box=(4, 16), fill="nan")
        module.by_value[1, 64](made, y, 8, 12, made.nbytes, 0)
        want = np.full((4, 16), np.nan, np.float32)
        want[:2, :12] = TABLE[14:16, 8:20]
        np.testing.assert_array_equal(y.reshape(4, 16), want)


@pytest.mark.parametrize(
    ("options", "got"),
    [
        ({"box": (4, 3)}, "12 bytes"),
        ({"box": (4, 300)}, "300 in dimension 0"),
        ({"box": (4,)}, "(4,)"),
        ({"box": (0, 16)}, "0 in dimension 1"),
        ({"box": (4, 16), "swizzle": 32}, "64 bytes, swizzle=32"),
        ({"box": (4, 16), "swizzle": 96}, "96"),
        ({"box": (4, 16), "interleave": 16}, "shape (16, 32), 128 bytes in the last dimension"),
        ({"box": (1, 2, 4, 8), "interleave": 16, "tensor": IMAGES}, "box (1, 2, 4, 8)"),
        ({"box": (1, 1, 4, 8), "interleave": 32, "tensor": IMAGES}, "16 bytes in the last"),
        ({"box": (1, 1, 4, 6), "interleave": 16, "tensor": IMAGES}, "12 bytes"),
        ({"box": (1, 1, 4, 4), "interleave": 16, "tensor": IMAGES[:, :, :, ::2]}, "32 bytes from"),
        ({"box": (4, 16), "element_strides": (9, 1)}, "9 in dimension 1"),
        ({"box": (256, 256)}, "262144 bytes"),
        ({"box": (4, 16), "fill": "one"}, "one"),
        ({"box": (4, 16), "l2": 32}, "32"),
        ({"box": (4, 16), "dtype": "f16"}, "f16 of 2 bytes, the tensor's have 4"),
        ({"box": (4, 16), "tensor": TABLE.T}, "128 bytes from element to element of 4 bytes"),
        ({"box": (4, 16), "tensor": TABLE[:, 1:]}, "address"),
        ({"box": (4, 16), "tensor": np.zeros((4, 18), np.float32)}, "72 bytes in dimension 1"),
        ({"box": (4, 16), "tensor": np.zeros((4, 0), np.float32)}, "shape (4, 0)"),
        ({"box": (1,) * 6, "tensor": np.zeros((1,) * 6, np.float32)}, "6"),
        ({"box": (4, 16), "tensor": np.zeros((4, 16), np.complex64)}, "complex64"),
        ({"box": (4, 16), "tensor": np.zeros((4, 16), np.int32), "fill": "nan"}, "s32"),
        ({"box": (4, 16), "tensor": 3.0}, "float"),
    ],
    ids=str,
)
def test_maps_that_are_refused(options: dict[str, Any], got: str) -> None:
    given = {"tensor": TABLE, **options}
    with pytest.raises(weft.ArgumentError) as caught:
        weft.tensor_map(given.pop("tensor"), **given)
    assert got in caught.value.got


def read_slices(made: weft.TensorMap, name: str, at: tuple[int, ...]) -> np.ndarray:
    """A copy of a map, as a kernel of the probes makes it."""
    out, seen = np.zeros(4096, np.uint8), np.zeros(4, np.uint32)
    tensor = made.memory("images")
    kernel(name)[1, 128, 8192].reaching(
        [Allocation(tensor.address, tensor.nbytes, True, "images")],
        aligned(np.frombuffer(bytes(made), np.uint8)), np.zeros(4096, np.uint8),
        np.array(at, np.int32), out, seen, 4096, 0, made.nbytes,
    )  # fmt: skip
    assert seen[0], "the mbarrier has as many bytes as the map says"
    return out[: made.nbytes].view(np.float16).reshape(-1, 8)


def test_boxes_and_pixels_of_slices() -> None:
    made = weft.tensor_map(IMAGES, box=(1, 1, 3, 8), interleave=16)
    found = read_slices(made, "load_tile_4", (2, 1, 2, 1))  # w, h, slice, n
    np.testing.assert_array_equal(found.reshape(3, 8, 8), IMAGES[1, 2, 1:4, 2:10])
    made = weft.im2col_map(IMAGES, lower=(0, 0), upper=(0, 0), channels=8, pixels=16, interleave=16)
    found = read_slices(made, "load_im2col_4", (6, 2, 1, 0, 0, 0))
    np.testing.assert_array_equal(found, IMAGES[0, 1].reshape(60, 8)[26:42])


def test_an_im2col_copy_takes_one_slice() -> None:
    with pytest.raises(weft.ArgumentError, match="takes one slice of channels"):
        weft.im2col_map(IMAGES, lower=(0, 0), upper=(0, 0), channels=16, pixels=4, interleave=16)


def test_an_empty_box_of_pixels_is_refused() -> None:
    images = np.zeros((2, 6, 6, 16), np.float16)
    with pytest.raises(weft.ArgumentError, match="the box of pixels is empty"):
        weft.im2col_map(images, lower=(3, 0), upper=(-4, 0), channels=16, pixels=8)


@pytest.mark.parametrize(
    ("given", "at", "shift", "what"),
    [
        ((4, 16), (2, 0), 0, "begins 8 bytes into the innermost dimension"),
        ((4, 16), (0, 0), 64, "is given byte 64 of shared memory"),
        (None, (0, 0), 0, "is given memory that is no tensor map"),
        ("im2col", (0, 0), 0, "is given a im2col map"),
        ("3d", (0, 0), 0, "is given the map of a tensor with 3 dimensions"),
        ("slices", (0, 0), 0, "is given the map of an interleaved tensor with 2 dimensions"),
    ],
    ids=["coordinate", "shared", "stray", "mode", "rank", "interleave"],
)
def test_copies_that_are_refused(
    module: weft.Module, given: Any, at: tuple[int, int], shift: int, what: str
) -> None:
    y = np.zeros(64, np.float32)
    if given is None:
        made: Any = np.full(16, 0xDEADBEEFDEADBEEF, np.uint64).tobytes()
    elif given == "im2col":
        made = weft.im2col_map(
            np.zeros((2, 4, 16), np.float32), lower=(0,), upper=(0,), channels=16, pixels=4
        )
    elif given == "slices":
        raw = bytearray(bytes(weft.tensor_map(TABLE, box=(4, 16))))
        raw[9] |= 8  # as tensormap.replace writes it
        made = bytes(raw)
    elif given == "3d":
        made = weft.tensor_map(TABLE.reshape(4, 4, 32), box=(1, 4, 16))
    else:
        made = weft.tensor_map(TABLE, box=given)
    with pytest.raises(weft.DeviceError) as caught:
        module.by_value[1, 64](made, y, *at, 256, shift)
    error = caught.value
    assert what in error.what
    assert "kernel.cu:12" in error.where and "tensor map at 0x" in error.got and error.next


def test_a_box_outside_shared_memory(module: weft.Module) -> None:
    y = np.zeros(64, np.float32)
    made = weft.tensor_map(TABLE, box=(16, 32))
    with pytest.raises(weft.IllegalAddress, match="write of 2048 bytes in by_value, shared memory"):
        module.by_value[1, 64](made, y, 0, 0, made.nbytes, 128)


def test_a_tensor_that_the_launch_does_not_have(module: weft.Module) -> None:
    """The bytes of a map do not give access to a tensor."""
    y = np.zeros(64, np.float32)
    stray = bytes(weft.tensor_map(TABLE.copy(), box=(4, 16)))
    with pytest.raises(weft.IllegalAddress, match="out-of-bounds read"):
        module.by_value[1, 64](stray, y, 0, 0, 256, 0)


def test_a_map_for_another_parameter(module: weft.Module) -> None:
    made = weft.tensor_map(TABLE, box=(4, 16))
    with pytest.raises(weft.ArgumentError, match="is no tensor map"):
        module.by_value[1, 64](made, np.zeros(64, np.float32), made, 0, 0, 0)


# ---- mbarriers ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("step", "number", "what"),
    [
        (0, 0, "initialises an mbarrier for 0 arrivals"),
        (0, 1 << 20, "initialises an mbarrier for 1048576 arrivals"),
        (1, 2, "arrives at an mbarrier more often than its 1 pending arrivals"),
        (2, 1 << 20, "leaves an mbarrier with 1048576 bytes on their way"),
    ],
)
def test_wrong_steps_of_mbarriers(module: weft.Module, step: int, number: int, what: str) -> None:
    with pytest.raises(weft.DeviceError) as caught:
        module.misuses[1, 1](step, number)
    error = caught.value
    assert what in error.what and error.allowed and error.next
    assert "kernel.cu:" in error.where and "of shared memory, block" in error.got


def test_a_deadlock_names_expected_and_arrived_bytes(module: weft.Module) -> None:
    y = np.zeros(64, np.float32)
    made = weft.tensor_map(TABLE, box=(4, 16))
    with pytest.raises(weft.Deadlock) as caught:
        module.by_value[1, 64](made, y, 0, 0, made.nbytes + 16, 0)
    got = caught.value.got
    assert "0 of 1 arrivals are pending, 272 bytes are expected, 256 have arrived" in got
    assert "last armed at kernel.cu:11" in got and "last copy at kernel.cu:12" in got


# ---- tools -------------------------------------------------------------------------------------
def test_tools_see_the_copies(module: weft.Module) -> None:
    y = np.zeros(64, np.float32)
    made = weft.tensor_map(TABLE, box=(4, 16))
    module.by_value[1, 64](made, y, 24, 0, made.nbytes, 0, sanitize=True)
    profile = weft.profile(module.by_value[1, 64], made, y, 24, 0, made.nbytes, 0)
    (line,) = (x for x in profile.instructions if "cp.async.bulk.tensor" in x.text)
    moved = {(a.space, a.kind): a.bytes for a in line.accesses}
    assert moved == {("global", "bulk load"): 128, ("shared", "multicast"): 256}
