"""Forms of `wgmma` as kernels, and operands for them from a seed: the same on a GPU and simulated.

A probe is one product of one warpgroup per block. Its input has rows of 128 words: first the image
of shared memory, then the registers of A, of the accumulators, and of the metadata.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from zlib import crc32

import numpy as np

from probes import MODES, _cancel, _words

LANES = 128
ROW = 4 * LANES
"""Bytes of a row of the input."""


@dataclass(frozen=True)
class Layout:
    """A matrix in shared memory: a descriptor's fields, in bytes, and the order of its elements.

    swizzle  0, or the width: 128, 64, 32
    turned   neighbouring rows (columns of B) lie together, instead of neighbouring k
    """

    start: int = 0
    leading: int = 128
    stride: int = 256
    swizzle: int = 0
    base: int = 0
    turned: bool = False

    @property
    def descriptor(self) -> int:
        """The constant part: all but the address of shared memory itself."""
        mode = {0: 0, 128: 1, 64: 2, 32: 3}[self.swizzle]
        return (
            self.start >> 4 | (self.leading >> 4) << 16 | (self.stride >> 4) << 32
            | self.base << 49 | mode << 62
        )  # fmt: skip


@dataclass(frozen=True)
class WarpgroupProbe:
    """One form: types, columns, where A and B lie (A None: registers), scales and selector.

    image   bytes of shared memory
    tiles   products of which the results are recorded
    fill    "random", or "addresses" for a probe of the layout: see `addresses`
    """

    n: int
    a: str
    b: str
    acc: str
    left: Layout | None
    right: Layout
    image: int
    adds: bool = True
    signs: tuple[int, int] = (1, 1)
    saturate: bool = False
    selector: int | None = None
    tiles: int = 512
    fill: str = "random"

    @property
    def k(self) -> int:
        return (512 if self.selector is not None else 256) // BITS[self.a]

    @property
    def registers(self) -> int:
        """Registers of the accumulators."""
        return self.n // 4 if self.acc == "f16" else self.n // 2

    @property
    def opcode(self) -> str:
        sparse = "" if self.selector is None else ".sp"
        sat = ".satfinite" if self.saturate else ""
        tail = ".and.popc" if self.a == "b1" else ""
        return (
            f"wgmma.mma_async{sparse}.sync.aligned.m64n{self.n}k{self.k}{sat}"
            f".{self.acc}.{self.a}.{self.b}{tail}"
        )

    @property
    def name(self) -> str:
        sides = [_described(x) for x in (self.left, self.right)]
        words = [self.opcode, *sides, f"{self.signs[0]:+d}{self.signs[1]:+d}", self.fill]
        words += ["adds"] * self.adds + ([f"sel{self.selector}"] * (self.selector is not None))
        return " ".join(words)

    @property
    def seed(self) -> int:
        return crc32(self.name.encode())

    @property
    def kinds(self) -> tuple[str, ...]:
        """The contents of each row of the input."""
        near = self.image // ROW
        first = 0 if self.left is None else self.right.start // ROW
        rows = [self.a] * first + [self.b] * (near - first)
        rows += [self.a] * 4 if self.left is None else []
        rows += [self.acc] * self.registers
        if self.selector is not None:
            rows += ["singles" if self.a == "tf32" else "pairs"]
        return tuple(rows)


BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "b1": 1}


def _described(x: Layout | None) -> str:
    if x is None:
        return "registers"
    order = "mn" if x.turned else "k"
    return f"{order}:{x.start}:{x.leading}:{x.stride}:{x.swizzle}:{x.base}"


def kernel(probe: WarpgroupProbe, name: str) -> str:
    """The entry `name(in, out, left, right)`, for blocks of 128 threads.

    `left` and `right` are descriptors; probes that differ in nothing else have the same code.
    """
    rows, count = len(probe.kinds), probe.registers
    near = probe.image // ROW
    a_rows = 4 if probe.left is None else 0
    lines = [
        f".visible .entry {name}(.param .u64 in, .param .u64 out, .param .u64 left,",
        "  .param .u64 right) {",
        f"  .reg .b32 %a<4>, %d<{count}>, %m, %t, %n, %w, %base;",
        "  .reg .b64 %x<4>, %left, %right; .reg .pred %p;",
        f"  .shared .align 1024 .b8 near[{max(probe.image, 16)}];",
        "  mov.u32 %t, %tid.x; mov.u32 %n, %ctaid.x; mov.u32 %base, near;",
        "  ld.param.u64 %x0, [in]; ld.param.u64 %x1, [out]; mov.b32 %m, 0;",
        f"  mul.wide.u32 %x2, %n, {rows * ROW}; add.s64 %x0, %x0, %x2;",
        f"  mul.wide.u32 %x2, %n, {count * ROW}; add.s64 %x1, %x1, %x2;",
        "  mul.wide.u32 %x2, %t, 4; add.s64 %x0, %x0, %x2; add.s64 %x1, %x1, %x2;",
        "  shl.b32 %n, %t, 2; add.u32 %n, %n, %base;",
        f"  mov.s64 %x3, %x0; add.u32 %t, %n, {ROW * near};",
        "copy: ld.global.b32 %w, [%x3]; st.shared.b32 [%n], %w;",
        f"  add.s64 %x3, %x3, {ROW}; add.u32 %n, %n, {ROW}; setp.ne.u32 %p, %n, %t; @%p bra copy;",
        *(f"  ld.global.b32 %a{i}, [%x0+{ROW * (near + i)}];" for i in range(a_rows)),
        *(f"  ld.global.b32 %d{i}, [%x0+{ROW * (near + a_rows + i)}];" for i in range(count)),
    ]
    if probe.selector is not None:
        lines.append(f"  ld.global.b32 %m, [%x0+{ROW * (rows - 1)}];")
    lines += [
        "  shr.u32 %base, %base, 4; cvt.u64.u32 %x2, %base;",
        "  ld.param.u64 %left, [left]; add.s64 %left, %left, %x2;",
        "  ld.param.u64 %right, [right]; add.s64 %right, %right, %x2;",
        f"  setp.ne.b32 %p, {int(probe.adds)}, 0;",
        "  fence.proxy.async.shared::cta; bar.sync 0; wgmma.fence.sync.aligned;",
        f"  {instruction(probe)}",
        "  wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;",
        *(f"  st.global.b32 [%x1+{ROW * i}], %d{i};" for i in range(count)),
        "  ret;\n}\n",
    ]
    return "\n".join(lines)


def instruction(probe: WarpgroupProbe) -> str:
    """The product, with the registers of `kernel`."""
    d = ", ".join(f"%d{i}" for i in range(probe.registers))
    a = "{%a0, %a1, %a2, %a3}" if probe.left is None else "%left"
    operands = [f"{{{d}}}", a, "%right"]
    operands += [] if probe.selector is None else ["%m", str(probe.selector)]
    operands.append("%p")
    if probe.acc != "s32":
        operands += [str(s) for s in probe.signs]
    if probe.a in ("f16", "bf16"):
        operands += [] if probe.left is None else [str(int(probe.left.turned))]
        operands.append(str(int(probe.right.turned)))
    return f"{probe.opcode} {', '.join(operands)};"


HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n"


def entry(probe: WarpgroupProbe) -> str:
    """The name of a probe's kernel."""
    return f"p{crc32(kernel(probe, 'p').encode()):08x}"


def module(probes: Sequence[WarpgroupProbe]) -> str:
    """The kernels of all probes."""
    kernels = {entry(p): p for p in probes}
    return HEAD + "\n".join(kernel(p, name) for name, p in kernels.items())


def descriptors(probe: WarpgroupProbe) -> tuple[np.uint64, np.uint64]:
    """The last two arguments of a probe's kernel."""
    left = probe.left.descriptor if probe.left is not None else 0
    return np.uint64(left), np.uint64(probe.right.descriptor)


def operands(probe: WarpgroupProbe) -> np.ndarray:
    """Words [tiles, rows, 128] of a probe's input."""
    if probe.fill != "random":
        return addresses(probe)
    out = np.zeros((probe.tiles, len(probe.kinds), LANES), np.uint32)
    for m, mode in enumerate(MODES):
        part = out[m :: len(MODES)]
        for i, kind in enumerate(probe.kinds):
            rng = np.random.default_rng([probe.seed, m, i])
            part[:, i] = _words(rng, (len(part), LANES), kind, mode)
        if mode == "cancel":
            _cancel(part, probe.kinds)
    return out


# ---- the forms -----------------------------------------------------------------------------------
_DENSE = [
    ("f16", "f16", "f32"), ("f16", "f16", "f16"), ("bf16", "bf16", "f32"), ("tf32", "tf32", "f32"),
    *((x, y, acc) for x, y in product(("e4m3", "e5m2"), repeat=2) for acc in ("f32", "f16")),
]  # fmt: skip
_INTEGERS = [(x, y) for x, y in product(("s8", "u8"), repeat=2)]


def _plain(n: int, a: str, b: str, acc: str, *, near: bool, **more: object) -> WarpgroupProbe:
    """K-major without a swizzle, or A in registers."""
    per = 512 if more.get("selector") is not None else 256
    right = Layout(stride=per, leading=128)
    size = -(-n // 8 * per // ROW) * ROW
    if not near:
        return WarpgroupProbe(n, a, b, acc, None, right, size, **more)  # type: ignore[arg-type]
    more = {"tiles": 256} | more
    right = replace(right, start=2048)
    return WarpgroupProbe(n, a, b, acc, Layout(), right, 2048 + size, **more)  # type: ignore[arg-type]


def _swizzled(n: int, a: str, b: str, acc: str, wide: int, **more: object) -> WarpgroupProbe:
    """K-major tiles whose rows have the width of the swizzle, in the second 32 bytes of them."""
    at = 32 if wide >= 64 else 0
    left = Layout(start=at, leading=16, stride=8 * wide, swizzle=wide)
    size, more_right = 64 * wide, max(n * wide, 1024)
    right = replace(left, start=size + at)
    size += more_right
    return WarpgroupProbe(n, a, b, acc, left, right, size, tiles=256, **more)  # type: ignore[arg-type]


def numeric() -> list[WarpgroupProbe]:
    """Products of random operands."""
    out = []
    for a, b, acc in _DENSE:
        out += [_plain(8, a, b, acc, near=False), _plain(24, a, b, acc, near=True)]
        out += [_plain(8, a, b, acc, near=False, adds=False)]
        out += [_swizzled(16, a, b, acc, wide) for wide in (128, 64, 32)]
        for signs in ((-1, 1), (1, -1), (-1, -1)):
            out.append(_plain(8, a, b, acc, near=signs[0] < 0, signs=signs))
        for selector in range(1 if BITS[a] == 8 else 2):
            out.append(_plain(8, a, b, acc, near=False, selector=selector))
            out.append(_plain(24, a, b, acc, near=True, selector=selector, signs=(-1, 1)))
    for (a, b), saturate in product(_INTEGERS, (False, True)):
        more = {"saturate": saturate}
        out += [_plain(8, a, b, "s32", near=False, **more)]
        out += [_plain(48, a, b, "s32", near=True, tiles=256, **more)]
        out += [_plain(8, a, b, "s32", near=False, selector=0, **more)]
        out += [_plain(16, a, b, "s32", near=True, selector=0, adds=False, **more)]
    for near in (False, True):
        out.append(_plain(16, "b1", "b1", "s32", near=near))
    for a, acc in (("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("e4m3", "f32")):
        out.append(_plain(256, a, a, acc, near=True, tiles=32))
    out.append(_plain(256, "s8", "s8", "s32", near=True, tiles=32))
    return out


# ---- layouts -------------------------------------------------------------------------------------
_IMAGE = 31744
"""Bytes that a probe of a layout may read; the other operand follows."""


def layouts() -> list[WarpgroupProbe]:
    """Products that show the address of each element: one factor selects, the other has addresses.

    Numbers of 16-bit elements are their own bit patterns, which are small f16 numbers.
    """
    found: list[Layout] = []
    for turned in (False, True):
        for leading, stride in ((256, 1024), (4096, 512), (2048, 128)):
            found.append(Layout(0, leading, stride, 0, 0, turned))
        for wide in (128, 64, 32):
            for leading, stride in ((16, 8 * wide), (4096, 8 * wide), (2048, 16 * wide)):
                found.append(Layout(0, leading, stride, wide, 0, turned))
            for start in (32, 64, 96, 128, 256, 384, 512, 640, 1024, 1152):
                for base in {0, start >> 7 & 7, 3}:
                    found.append(Layout(start, 4096, 8 * wide, wide, base, turned))
    out = []
    for x in found:
        identity = Layout(_IMAGE, 128, 256)
        for n, selector in ((32, None), (16, 0)):
            out.append(
                WarpgroupProbe(
                    n, "f16", "f16", "f32", None, x, _IMAGE, adds=False, tiles=1,
                    fill="addresses", selector=selector,
                )
            )  # fmt: skip
        out.append(
            WarpgroupProbe(
                16, "f16", "f16", "f32", x, identity, _IMAGE + ROW, adds=False, tiles=1,
                fill="addresses",
            )
        )  # fmt: skip
    return out


def addresses(probe: WarpgroupProbe) -> np.ndarray:
    """The input of a probe of a layout."""
    out = np.zeros((1, len(probe.kinds), LANES), np.uint32)
    image = np.arange(_IMAGE // 2, dtype=np.uint16)
    near = _IMAGE // ROW
    out[0, :near] = image.view(np.uint32).reshape(near, LANES)
    one = 0x3C00
    if probe.left is not None:
        # B = 1 as cores of 8 columns x 8 values of k.
        cores = np.zeros((2, 2, 8, 8), np.uint16)
        for i in range(16):
            cores[i // 8, i // 8, i % 8, i % 8] = one
        out[0, near] = cores.reshape(-1).view(np.uint32)
        return out
    for lane, register, half in product(range(LANES), range(4), range(2)):
        row = 16 * (lane // 32) + lane % 32 // 4 + 8 * (register % 2)
        column = 2 * (lane % 4) + half + 8 * (register // 2)
        if row % 16 == column:
            out[0, near + register, lane] |= one << 16 * half
    if probe.selector is not None:
        # Rows of the upper two warps select the second pair of each four elements.
        out[0, -1, : LANES // 2], out[0, -1, LANES // 2 :] = 0x44444444, 0xEEEEEEEE
    return out


def matrix(probe: WarpgroupProbe, d: np.ndarray) -> np.ndarray:
    """Results [registers, 128] as 64 rows of n columns."""
    halves = 2 if probe.acc == "f16" else 1
    parts = d.view(np.uint16).reshape(probe.registers, LANES, 2) if halves == 2 else d[..., None]
    slots = parts.transpose(0, 2, 1).reshape(-1, LANES)
    out = np.zeros((64, probe.n), slots.dtype)
    for r, lane in np.ndindex(slots.shape):
        row = 16 * (lane // 32) + lane % 32 // 4 + 8 * (r // 2 % 2)
        out[row, 8 * (r // 4) + 2 * (lane % 4) + r % 2] = slots[r, lane]
    return out


def read_addresses(probe: WarpgroupProbe, d: np.ndarray) -> np.ndarray:
    """Byte addresses of the elements that a probe of a layout has read, as 64 rows of n columns."""
    values = matrix(probe, d).view(np.float32).astype(np.float16)
    return 2 * values.view(np.uint16)


FIRST = 8
"""Products whose results are recorded as they are: one of each distribution."""
PARTS = 8
"""Checksums of a probe, so that a difference can be found."""


def checksums(results: np.ndarray) -> list[int]:
    """Digests of consecutive parts of a probe's results."""
    return [checksum(part) for part in np.array_split(results, PARTS)]


def checksum(results: np.ndarray) -> int:
    return crc32(np.ascontiguousarray(results))


def is_kept(probe: WarpgroupProbe) -> bool:
    """True if the first results are recorded as they are."""
    return probe.n == 8 and probe.left is None and probe.adds and not probe.saturate
