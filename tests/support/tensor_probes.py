"""Random tensor copies (TMA): tensors, boxes and coordinates from a seed, and kernels for them.

`scripts/record_tensor_copies.py` runs them on a GPU, `tests/instructions/test_tensor_copies.py` on
the simulated one. A case is one copy between a tensor in global memory and shared memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from weft.device.tensor_map_encoding import DRIVER_TYPES, MapRequest
from weft.device.tensor_map_layout import ElementType

DTYPES = {
    "uint8": (0, 1), "uint16": (1, 2), "uint32": (2, 4), "int32": (3, 4), "uint64": (4, 8),
    "int64": (5, 8), "float16": (6, 2), "float32": (7, 4), "float64": (8, 8), "bfloat16": (9, 2),
    "float32_ftz": (10, 4), "tfloat32": (11, 4), "tfloat32_ftz": (12, 4),
}  # fmt: skip
"""Name -> (the driver's number of the type, bytes of an element)."""
FLOATS = ("float16", "float32", "float64", "bfloat16", "float32_ftz", "tfloat32", "tfloat32_ftz")
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
"""Bytes of the span of a swizzle -> the driver's number."""
POISON = 0xA5
"""Bytes of shared memory that no copy has written."""

REDUCTIONS = {
    "add": "uint32 int32 uint64 float16 bfloat16 float32",
    "min": "uint32 int32 uint64 int64 float16 bfloat16",
    "max": "uint32 int32 uint64 int64 float16 bfloat16",
    "and": "uint32 uint64",
    "or": "int32 uint64",
    "xor": "uint32 int64",
    "inc": "uint32",
    "dec": "uint32",
}
UNSURE = {
    "add": "int64 float64 float32_ftz tfloat32 uint8",
    "min": "float32 uint16",
    "and": "float32",
}
"""Types that PTX lists for no reduction: a GPU may refuse them."""


@dataclass(frozen=True)
class Case:
    """One copy; sizes and coordinates begin with the innermost dimension.

    kind      load, store, or a reduction: add, min, ...
    strides   bytes of the dimensions after the first
    shift     bytes from a 1024-byte boundary to the box in shared memory
    lower     of im2col: the corners of the pixels' bounding box, with `upper`; None: tiled
    """

    name: str
    kind: str
    dtype: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...]
    interleave: int
    swizzle: int
    nan: bool
    at: tuple[int, ...]
    seed: int
    shift: int = 0
    lower: tuple[int, ...] | None = None
    upper: tuple[int, ...] = ()
    channels: int = 0
    pixels: int = 0
    offsets: tuple[int, ...] = ()

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def itemsize(self) -> int:
        return DTYPES[self.dtype][1]

    @property
    def group(self) -> str:
        """Its name without the number."""
        return self.name.rstrip("0123456789")

    @property
    def kernel(self) -> str:
        mode = "tile" if self.lower is None else "im2col"
        return f"{self.kind}_{mode}_{self.rank}"

    @property
    def counts(self) -> tuple[int, ...]:
        """Elements of the box in shared memory: im2col has channels and pixels."""
        if self.lower is not None:
            return self.channels, self.pixels
        first = (1 if self.interleave == 0 else self.steps[0],)
        return tuple(-(-b // s) for b, s in zip(self.box, (*first, *self.steps[1:]), strict=True))

    @property
    def nbytes(self) -> int:
        return math.prod(self.counts) * self.itemsize

    @property
    def origin(self) -> int:
        """Bytes of memory before the tensor."""
        return 0

    @property
    def window(self) -> int:
        """Bytes of shared memory that the case looks at."""
        inner = self.counts[0] * self.itemsize
        spread = max(inner, self.swizzle, 32 if self.interleave else 0)
        return -(-(self.nbytes // inner * spread + self.shift) // 1024) * 1024 + 1024

    @property
    def memory(self) -> int:
        """Bytes of the tensor, with the slices of an interleaved one."""
        spans = sum((d - 1) * s for d, s in zip(self.dims[1:], self.strides, strict=True))
        slices = 1
        if self.interleave:
            slices = -(-self.dims[0] * self.itemsize // (16 * self.interleave))
        spare = 2048 if self.interleave else 0
        return -(-(slices * (spans + self.dims[0] * self.itemsize + 64) + spare) // 64) * 64


def elements(case: Case, count: int, salt: int) -> np.ndarray:
    """Bytes: numbers that tell where they come from, or hard floating-point numbers."""
    rng = np.random.default_rng([case.seed, salt])
    words = rng.integers(0, 2**32, count // 4, dtype=np.uint32)
    if case.dtype in ("uint32", "int32") and case.kind in ("load", "store"):
        words = np.arange(count // 4, dtype=np.uint32) + np.uint32(1 + (salt << 24))
    elif case.kind == "add" and case.dtype.startswith(("float", "bfloat")):
        # Magnitudes near each other, so that sums round; some zeros, infinities and subnormals.
        bits = {"float16": 10, "bfloat16": 7, "float64": 52}.get(case.dtype, 23)
        wide = 8 * case.itemsize
        bias = (1 << (wide - 2 - bits)) - 1
        exponent = bias + rng.integers(-3, 4, count // case.itemsize)
        exponent[rng.random(len(exponent)) < 0.1] = 0
        exponent[rng.random(len(exponent)) < 0.02] = 2 * bias + 1
        value = rng.integers(0, 1 << bits, len(exponent)) + (exponent << bits)
        value = value.astype(np.uint64) | (
            rng.integers(0, 2, len(exponent)).astype(np.uint64) << np.uint64(wide - 1)
        )
        return np.ascontiguousarray(value.astype(f"u{case.itemsize}")).view(np.uint8)
    elif case.dtype in FLOATS:  # subnormals, infinities and NaNs among the rest
        lanes = words.view(f"u{min(case.itemsize, 4)}")
        few = rng.random(len(lanes))
        one = lanes.dtype.type
        lanes[few < 0.1] &= one(0x007F if lanes.itemsize == 2 else 0x007FFFFF)
        lanes[few > 0.95] |= one(0x7C00 if lanes.itemsize == 2 else 0x7F800000)
        if case.dtype.startswith("tfloat"):  # numbers between two of tf32
            between = (few > 0.3) & (few < 0.6)
            lanes[between] = lanes[between] & ~one(0x1FFF) | one(0x1000)
    return words.view(np.uint8)


def tensor(case: Case) -> np.ndarray:
    """The bytes of the tensor in global memory."""
    return elements(case, case.memory, 1)


def staged(case: Case) -> np.ndarray:
    """The bytes of shared memory before a store; a load begins with POISON."""
    if case.kind == "load":
        return np.full(case.window, POISON, np.uint8)
    return elements(case, case.window, 2)


def checksum(data: np.ndarray) -> np.uint32:
    """A sum of the bytes that depends on their places."""
    words = np.ascontiguousarray(data).view(np.uint8).astype(np.uint64)
    weights = np.arange(1, len(words) + 1, dtype=np.uint64) * np.uint64(2654435761)
    return np.uint32(int((words * (weights >> np.uint64(7))).sum()) & 0xFFFFFFFF)


# ---- random cases ---------------------------------------------------------------------------
LARGEST = 12288
"""Bytes of the tensor of a case, at most."""


def tiled(rng: np.random.Generator, name: str, kind: str, dtype: str, **fixed: int) -> Case:
    """Draw tensors until one is small enough."""
    while (case := _drawn(rng, name, kind, dtype, **fixed)).memory > LARGEST:
        pass
    return case


def _drawn(rng: np.random.Generator, name: str, kind: str, dtype: str, **fixed: int) -> Case:
    size = DTYPES[dtype][1]
    interleave = fixed.get("interleave", 0)
    rank = fixed.get("rank") or int(rng.integers(3 if interleave else 1, 6))
    swizzle = fixed.get("swizzle", int(rng.choice(list(SWIZZLES))))
    if interleave == 2:
        swizzle = 32
    widest = min(swizzle or 256, 256 * size)
    inner = 16 * int(rng.integers(1, widest // 16 + 1))
    if interleave:
        inner = 16 * interleave * int(rng.integers(1, 4))
    box = [inner // size]
    for _ in range(rank - 1):
        room = 4096 // (math.prod(box) * size)
        box.append(int(rng.integers(1, max(2, min(9, room + 1)))))
    dims = [int(rng.integers(1, 2 * b + 4)) for b in box[:3]]
    dims += [int(rng.integers(1, b + 2)) for b in box[3:]]
    unit = 16 * max(interleave, 1)
    strides: list[int] = []
    for i in range(rank - 1):
        if i == 0:
            dense = unit if interleave else -(-dims[0] * size // unit) * unit
        else:
            dense = strides[-1] * dims[i]
        strides.append(dense + unit * int(rng.integers(0, 3)) * (not interleave))
    if interleave and rank > 2:  # all slices of a row come before the next of the last dimension
        slices = -(-dims[0] * size // unit)
        strides[-1] = strides[-2] * dims[-2] * slices
    few = rng.random() < 0.4
    steps = tuple(int(rng.integers(1, 4)) if few and i else 1 for i in range(rank))
    at = tuple(int(rng.integers(-b // 2 - 1, d + 1)) for b, d in zip(box, dims, strict=True))
    # A GPU takes an innermost coordinate only at a multiple of 16 bytes, or of a slice. A store
    # takes no negative coordinates.
    if kind != "load":
        at = tuple(max(0, x) for x in at)
    at = (at[0] // (unit // size) * (unit // size), *at[1:])
    nan = dtype in FLOATS and rng.random() < 0.5
    return Case(
        name, kind, dtype, tuple(dims), tuple(strides), tuple(box), steps, interleave, swizzle,
        nan, at, int(rng.integers(2**31)), 1024 * int(rng.integers(0, 2)),
    )  # fmt: skip


def im2col(rng: np.random.Generator, name: str, kind: str, dtype: str, **fixed: int) -> Case:
    while (case := _drawn_columns(rng, name, kind, dtype, **fixed)).memory > LARGEST:
        pass
    return case


def _drawn_columns(
    rng: np.random.Generator, name: str, kind: str, dtype: str, **fixed: int
) -> Case:
    size = DTYPES[dtype][1]
    rank = fixed.get("rank") or int(rng.integers(3, 6))
    swizzle = int(rng.choice(list(SWIZZLES)))
    channels = 16 * int(rng.integers(1, (swizzle or 128) // 16 + 1)) // size
    pixels = int(rng.integers(1, 33))
    space = [int(rng.integers(3, 9)) for _ in range(rank - 2)]
    dims = [int(rng.integers(1, 2 * channels + 1)), *space, int(rng.integers(1, 4))]
    strides = [-(-dims[0] * size // 16) * 16 + 16 * int(rng.integers(0, 2))]
    for d in dims[1:-1]:
        strides.append(strides[-1] * d + 16 * int(rng.integers(0, 2)))
    lower = tuple(int(rng.integers(-2 if kind == "load" else 0, 2)) for _ in space)
    upper = tuple(int(rng.integers(-2, 1)) for _ in space)
    few = rng.random() < 0.4
    steps = (1, *(int(rng.integers(1, 3)) if few else 1 for _ in space), 1)
    starts = [
        int(rng.integers(lo, max(lo + 1, d + up)))
        for lo, up, d in zip(lower, upper, space, strict=True)
    ]
    unit = 16 // size
    at = (int(rng.integers(0, dims[0])) // unit * unit, *starts, int(rng.integers(0, dims[-1])))
    offsets = tuple(int(rng.integers(0, 3)) for _ in space) if kind == "load" else ()
    nan = dtype in FLOATS and rng.random() < 0.5
    return Case(
        name, kind, dtype, tuple(dims), tuple(strides), (), steps, 0, swizzle, nan, at,
        int(rng.integers(2**31)), 1024 * int(rng.integers(0, 2)), lower, upper, channels, pixels,
        offsets,
    )  # fmt: skip


def cases() -> list[Case]:
    """Every recorded copy, the least certain ones last."""
    rng = np.random.default_rng(30)
    names = list(DTYPES)
    found = []
    for i in range(160):  # words that name their place come more often
        dtype = "uint32" if i % 2 else names[i // 2 % len(names)]
        found.append(tiled(rng, f"load{i}", "load", dtype))
    for i in range(60):
        dtype = "uint32" if i % 2 else names[i // 2 % len(names)]
        found.append(tiled(rng, f"store{i}", "store", dtype))
    for op, types in REDUCTIONS.items():
        for dtype in types.split():
            found += [tiled(rng, f"{op}_{dtype}_{i}", op, dtype) for i in range(2)]
    for i in range(60):
        dtype = "uint32" if i % 2 else names[i // 2 % len(names)]
        found.append(im2col(rng, f"im2col_load{i}", "load", dtype))
    for i in range(16):
        found.append(im2col(rng, f"im2col_store{i}", "store", "uint32" if i % 2 else "float16"))
    for i in range(6):
        found.append(im2col(rng, f"im2col_add{i}", "add", "uint32"))
    for i in range(32):
        kind = "store" if i % 4 == 3 else "load"
        found.append(
            tiled(rng, f"slices{i}", kind, "uint32" if i % 2 else "float16", interleave=1 + i // 16)
        )
    for i, shift in enumerate((128, 256, 384, 512, 640, 896) * 3):
        base = tiled(rng, f"shifted{i}", "load", "uint32", swizzle=(32, 64, 128)[i // 6])
        found.append(replace(base, shift=shift))
    for op, types in UNSURE.items():
        found += [
            tiled(rng, f"{op}_{d}", op, d) for d in types.split() if op != "add" or d != "uint8"
        ]
    return found


# ---- kernels --------------------------------------------------------------------------------
def source(kernels: list[str]) -> str:
    """CUDA C++ of the kernels of cases, by name."""
    return _HEAD + "\n".join(_kernel(name) for name in kernels)


_HEAD = r"""
__device__ unsigned near(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
extern __shared__ unsigned char room[];
__device__ unsigned char* begin(const unsigned char* staged, int window) {
    unsigned char* s = room + ((1024 - near(room) % 1024) % 1024);
    for (int i = threadIdx.x; i < window; i += blockDim.x) s[i] = staged[i];
    asm volatile("fence.proxy.async;" ::: "memory");
    return s;
}
__device__ bool ends(unsigned bar) {
    unsigned done;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 0;"
                 " selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(bar) : "memory");
    return done;
}
__device__ bool waits(unsigned bar) {
    bool done = false;
    for (int i = 0; i < 20000 && !done; i++) done = ends(bar);
    return done;
}
"""

_LOAD = r"""
extern "C" __global__ void NAME(const void* map, const unsigned char* staged, const int* at,
                                unsigned char* out, unsigned* seen, int window, int shift,
                                int bytes) {
    __shared__ unsigned long long full;
    unsigned char* s = begin(staged, window);
    unsigned bar = near(&full);
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared.b64 [%0], 1;"
                     "fence.mbarrier_init.release.cluster;" :: "r"(bar));
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("fence.proxy.tensormap::generic.acquire.sys [%0], 128;"
                     :: "l"(map) : "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(bar), "r"(bytes));
        asm volatile("cp.async.bulk.tensor.RANKd.shared::cluster.globalMODE"
                     ".mbarrier::complete_tx::bytes [%0], [%1, {COORDINATES}], [%2]OFFSETS;"
                     :: "r"(near(s) + shift), "l"(map), "r"(bar), INPUTS : "memory");
        seen[0] = waits(bar);
        seen[1] = (unsigned)full;
        seen[2] = (unsigned)(full >> 32);
        unsigned missing = 0;
        if (!seen[0])
            for (; missing < 4096 && !ends(bar); missing++)
                asm volatile("mbarrier.complete_tx.relaxed.cta.shared.b64 [%0], 16;" :: "r"(bar));
        seen[3] = missing;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < window; i += blockDim.x) out[i] = s[i];
}
"""

_STORE = r"""
extern "C" __global__ void NAME(const void* map, const unsigned char* staged, const int* at,
                                unsigned char* out, unsigned* seen, int window, int shift,
                                int bytes) {
    unsigned char* s = begin(staged, window);
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("fence.proxy.tensormap::generic.acquire.sys [%0], 128;"
                     :: "l"(map) : "memory");
        asm volatile("cp.OPasync.bulk.tensor.RANKd.global.shared::ctaWORDMODE.bulk_group"
                     " [%1, {COORDINATES}], [%0];"
                     :: "r"(near(s) + shift), "l"(map), "r"(0), INPUTS : "memory");
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
        seen[0] = 1;
    }
}
"""


def _kernel(name: str) -> str:
    kind, mode, rank = name.rsplit("_", 2)
    n = int(rank)
    offsets = n - 2 if mode == "im2col" and kind == "load" else 0
    inputs = [f'"r"(at[{i}])' for i in range(n)]
    inputs += [f'"h"((short)at[{n + i}])' for i in range(offsets)]
    listed = ", ".join(f"%{3 + n + i}" for i in range(offsets))
    words = {
        "NAME": name,
        "RANK": rank,
        "COORDINATES": ", ".join(f"%{3 + i}" for i in range(n)),
        "INPUTS": ", ".join(inputs),
        "OFFSETS": f", {{{listed}}}" if offsets else "",
        "OP": "" if kind == "store" else "reduce.",
        "WORD": "" if kind == "store" else f".{kind}",
        "MODE": {"tile": ".tile", "im2col": ".im2col" if kind == "load" else ".im2col_no_offs"}[
            mode
        ],
    }
    text = _LOAD if kind == "load" else _STORE
    for word, value in words.items():
        text = text.replace(word, value)
    return text


# ---- encodings ------------------------------------------------------------------------------
@dataclass(frozen=True)
class Encoding:
    """Arguments of cuTensorMapEncodeTiled, or of cuTensorMapEncodeIm2col where `lower` is given."""

    dtype: int
    rank: int
    address: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...]
    interleave: int = 0
    swizzle: int = 0
    l2: int = 0
    fill: int = 0
    lower: tuple[int, ...] | None = None
    upper: tuple[int, ...] = ()
    channels: int = 0
    pixels: int = 0


def encoding(case: Case, address: int) -> Encoding:
    """The map of a case."""
    return Encoding(
        DTYPES[case.dtype][0], case.rank, address, case.dims, case.strides, case.box, case.steps,
        case.interleave, SWIZZLES[case.swizzle], case.seed % 4, int(case.nan), case.lower,
        case.upper, case.channels, case.pixels,
    )  # fmt: skip


def request(e: Encoding) -> MapRequest:
    """The request for a map; a type that the driver lacks keeps its number."""
    kind = DRIVER_TYPES.get(e.dtype) or ElementType("unknown", 0, e.dtype, 4)
    return MapRequest(
        kind, e.address, e.dims, e.strides, e.steps, e.box, e.interleave, e.swizzle, e.l2,
        e.fill,  # type: ignore[arg-type]  # the driver is asked about other numbers, too
        e.lower, e.upper, e.channels, e.pixels,
    )  # fmt: skip


def encodings() -> list[Encoding]:
    """Maps of large tensors at addresses that nothing uses: for their bytes."""
    rng = np.random.default_rng(31)
    found = []
    for i in range(96):
        code, size = list(DTYPES.values())[i % 13]
        interleave = int(rng.choice([0, 0, 0, 1, 2]))
        rank = int(rng.integers(3 if interleave or i % 3 == 2 else 1, 6))
        swizzle = 1 if interleave == 2 else int(rng.integers(0, 4))
        inner = 16 * int(rng.integers(1, (16, 2, 4, 8)[swizzle] + 1)) // size
        box = (max(1, inner), *(int(rng.integers(1, 257)) for _ in range(rank - 1)))
        dims = tuple(int(2 ** rng.uniform(0, 32 if j < 2 else 14)) for j in range(rank))
        strides = tuple(32 * int(2 ** rng.uniform(0, 34)) for _ in range(rank - 1))
        steps = tuple(int(rng.integers(1, 9)) for _ in range(rank))
        address = 32 * int(rng.integers(1, 2**42))
        fill = int(code in (6, 7, 8, 9, 10, 11, 12)) * int(rng.integers(0, 2))
        plain = Encoding(
            code, rank, address, dims, strides, box, steps, interleave, swizzle,
            int(rng.integers(0, 4)), fill,
        )  # fmt: skip
        if i % 3 == 2:
            reach = {3: 2**15, 4: 2**7, 5: 2**4}[rank]
            corners = rng.integers(-reach, reach, (2, rank - 2))
            plain = replace(
                plain, box=(), lower=tuple(map(int, corners[0])), upper=tuple(map(int, corners[1])),
                channels=max(1, inner), pixels=int(rng.integers(1, 1025)),
            )  # fmt: skip
        found.append(plain)
    return found


def refused() -> list[Encoding]:
    """Maps of which the driver refuses most, each with one unusual argument."""
    good = Encoding(7, 3, 1 << 40, (64, 32, 8), (256, 8192), (16, 8, 4), (1, 1, 1))
    column = replace(
        good, rank=4, dims=(64, 32, 16, 8), strides=(256, 8192, 131072), box=(), steps=(1,) * 4,
        lower=(-1, -1), upper=(-1, -1), channels=16, pixels=64,
    )  # fmt: skip
    changes: list[dict[str, object]] = [
        {}, {"address": (1 << 40) + 8}, {"address": 0}, {"dtype": 13}, {"dtype": 16},
        {"dims": (0, 32, 8)}, {"dims": (2**32, 32, 8)}, {"dims": (2**32 + 1, 32, 8)},
        {"strides": (248, 8192)}, {"strides": (0, 8192)}, {"strides": (256, 2**40)},
        {"strides": (16, 8192)}, {"strides": (256, 128)}, {"box": (257, 8, 4)},
        {"box": (256, 8, 4)},
        {"box": (3, 8, 4)}, {"box": (16, 0, 4)}, {"box": (16, 256, 256)}, {"box": (256, 256, 256)},
        {"steps": (1, 9, 1)}, {"steps": (1, 8, 1)}, {"steps": (9, 1, 1)}, {"steps": (0, 1, 1)},
        {"steps": (1, 0, 1)}, {"swizzle": 1}, {"swizzle": 2}, {"swizzle": 1, "box": (8, 8, 4)},
        {"swizzle": 3, "box": (64, 8, 4)}, {"swizzle": 4}, {"swizzle": 7}, {"interleave": 1},
        {"interleave": 2}, {"interleave": 2, "swizzle": 1}, {"interleave": 3},
        {"interleave": 1, "rank": 2, "dims": (64, 32), "strides": (256,), "box": (16, 8),
         "steps": (1, 1)},
        {"interleave": 2, "swizzle": 1, "address": (1 << 40) + 16},
        {"interleave": 2, "swizzle": 1, "strides": (272, 8192)}, {"fill": 1}, {"fill": 2},
        {"fill": 1, "dtype": 2}, {"l2": 4},
        {"rank": 0, "dims": (), "strides": (), "box": (), "steps": ()},
        {"rank": 6, "dims": (64,) * 6, "strides": (256,) * 5, "box": (16,) * 6, "steps": (1,) * 6},
        {"interleave": 1, "box": (3, 8, 4)}, {"interleave": 1, "box": (2, 8, 4)},
    ]  # fmt: skip
    columns: list[dict[str, object]] = [
        {}, {"lower": (-129, 0)}, {"lower": (-128, 0)}, {"lower": (127, 0)}, {"upper": (128, 0)},
        {"upper": (127, 0)}, {"channels": 257}, {"channels": 256}, {"channels": 3}, {"channels": 0},
        {"pixels": 0}, {"pixels": 1024}, {"pixels": 1025}, {"swizzle": 1}, {"steps": (1, 9, 1, 1)},
        {"steps": (1, 1, 1, 2)}, {"lower": (20, 0), "upper": (-20, 0)}, {"interleave": 1},
        {"rank": 2, "dims": (64, 32), "strides": (256,), "steps": (1, 1), "lower": (), "upper": ()},
    ]  # fmt: skip
    return [replace(good, **c) for c in changes] + [replace(column, **c) for c in columns]  # type: ignore[arg-type]


# ---- tensormap.replace ----------------------------------------------------------------------
REPLACED = (
    ("global_address", "", "b64", "0x123456789abcdef0"),
    *(("rank", "", "b32", str(n)) for n in range(5)),
    *(("box_dim", f"{i}, ", "b32", str(9 + i)) for i in range(5)),
    *(("global_dim", f"{i}, ", "b32", str(1001 + i)) for i in range(5)),
    *(("global_stride", f"{i}, ", "b64", str(0x123456000 + 16 * i)) for i in range(4)),
    *(("element_stride", f"{i}, ", "b32", str(2 + i)) for i in range(5)),
    *(("elemtype", "", "b32", str(n)) for n in range(13)),
    *(("interleave_layout", "", "b32", str(n)) for n in range(3)),
    *(("swizzle_mode", "", "b32", str(n)) for n in range(4)),
    *(("fill_mode", "", "b32", str(n)) for n in range(2)),
)
"""Field, its number, the type of the value, the value: each is replaced in a copy of a map."""


def replacing() -> str:
    """A kernel that replaces fields, one in each copy of a map: 128 bytes each go to `out`."""
    steps = []
    for i, (field, number, kind, value) in enumerate(REPLACED):
        # Addresses, ranks, sizes and strides may be registers; the rest are literals.
        literal = field in ("elemtype", "interleave_layout", "swizzle_mode", "fill_mode")
        given = "" if literal else (f', "l"({value}ULL)' if kind == "b64" else f', "r"({value})')
        shown = value if literal else "%1"
        steps.append(f"""
    __syncthreads();
    copy[threadIdx.x] = map[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0)
        asm volatile("tensormap.replace.tile.{field}.shared::cta.b1024.{kind}"
                     " [%0], {number}{shown};"
                     :: "r"(near(copy)){given} : "memory");
    __syncthreads();
    out[32 * {i} + threadIdx.x] = copy[threadIdx.x];""")
    return (
        _HEAD
        + """
extern "C" __global__ void replaces(const unsigned* map, unsigned* out) {
    __shared__ alignas(128) unsigned copy[32];
"""
        + "".join(steps)
        + "\n}\n"
    )
