"""One instruction as a kernel, and operands for it from a seed: the same on a GPU and simulated.

A probe's operands are registers: arrays [warps, operands, 32] of 32-bit words. Random registers
reach what matrices placed by a layout would not, and need no layout to be known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from zlib import crc32

import numpy as np

WARPS_PER_BLOCK = 4
BATCH = 4096
"""Warps that are run and summed up at once."""
FLOATS = {
    "f16": (5, 10, 0), "bf16": (8, 7, 0), "tf32": (8, 10, 13), "f32": (8, 23, 0),
    "e4m3": (4, 3, 0), "e5m2": (5, 2, 0),
}  # fmt: skip
"""Bits of exponent and mantissa, and unused bits below them."""
MODES = ("narrow", "middle", "wide", "tiny", "huge", "cancel", "special", "raw")
"""Distributions of floats; successive warps take one after the other."""
PAIRS = np.array([0x4, 0x8, 0x9, 0xC, 0xD, 0xE], np.uint32)
"""Two different places out of four, in order: what metadata of `mma.sp` may hold."""
SINGLES = np.array([0x4, 0xE], np.uint32)
"""The same for tf32, one place out of two."""


@dataclass(frozen=True)
class Probe:
    """`text` reads %a0, %a1, … and writes %d0, %d1, …; `operands` says what is in each.

    `code` runs instead of `text` where one instruction is not enough; a warp may use 128 bytes of
    shared memory at [%near], its results lie at [%x1], and %n0 is the lane.
    """

    text: str
    operands: tuple[str, ...]
    results: int = 1
    code: str = ""

    @property
    def name(self) -> str:
        return f"{self.text} {' '.join(self.operands)}"

    @property
    def seed(self) -> int:
        return crc32(self.name.encode())


def kernel(probe: Probe, name: str) -> str:
    """The entry `name(in, out, warps)`."""
    count, results = len(probe.operands), probe.results
    lines = [
        f".visible .entry {name}(.param .u64 in, .param .u64 out, .param .u32 warps) {{",
        f"  .reg .b32 %a<{count + 1}>, %d<{results + 1}>, %n<6>, %near;",
        "  .reg .b16 %h<8>; .reg .b64 %x<3>; .reg .pred %p;",
        f"  .shared .align 128 .b8 near[{128 * WARPS_PER_BLOCK}];",
        "  mov.u32 %n0, %tid.x; shr.u32 %n1, %n0, 5; mov.u32 %n2, %ctaid.x;",
        "  mov.u32 %near, near; mad.lo.u32 %near, %n1, 128, %near;",
        f"  mad.lo.u32 %n1, %n2, {WARPS_PER_BLOCK}, %n1; ld.param.u32 %n3, [warps];",
        "  setp.ge.u32 %p, %n1, %n3; @%p exit;",
        "  and.b32 %n0, %n0, 31; ld.param.u64 %x0, [in]; ld.param.u64 %x1, [out];",
        f"  mul.lo.u32 %n4, %n1, {32 * count}; add.u32 %n4, %n4, %n0;",
        f"  mul.lo.u32 %n5, %n1, {32 * results}; add.u32 %n5, %n5, %n0;",
        "  mad.wide.u32 %x0, %n4, 4, %x0; mad.wide.u32 %x1, %n5, 4, %x1;",
        *(f"  ld.global.b32 %a{i}, [%x0+{128 * i}];" for i in range(count)),
        f"  {probe.code or probe.text}",
        *(f"  st.global.b32 [%x1+{128 * i}], %d{i};" for i in range(results)),
        "  ret;\n}\n",
    ]
    return "\n".join(lines)


def module(probes: list[Probe], target: str = "sm_90") -> str:
    """All probes as entries p0, p1, … of one module."""
    head = f".version 8.6\n.target {target}\n.address_size 64\n"
    return head + "\n".join(kernel(p, f"p{i}") for i, p in enumerate(probes))


def operands(probe: Probe, warps: int = BATCH) -> np.ndarray:
    """Words [warps, operands, 32]."""
    rng = np.random.default_rng(probe.seed)
    out = np.zeros((warps, len(probe.operands), 32), np.uint32)
    for m, mode in enumerate(MODES):
        part = out[m :: len(MODES)]
        for i, kind in enumerate(probe.operands):
            part[:, i] = _words(rng, (len(part), 32), kind, mode)
        if mode == "cancel":
            _cancel(part, probe.operands)
    return out


def batches(probe: Probe, count: int) -> Iterator[np.ndarray]:
    """`count` times BATCH warps: each operand's words are combined with others each time."""
    base = operands(probe)
    for n in range(count):
        shifts = [n * (2 * i + 1) * len(MODES) for i in range(len(probe.operands))]
        yield np.stack([np.roll(base[:, i], s, 0) for i, s in enumerate(shifts)], 1)


def checksum(results: np.ndarray) -> int:
    """The digest of one batch's results."""
    return crc32(np.ascontiguousarray(results))


def _words(rng: np.random.Generator, shape: tuple[int, ...], kind: str, mode: str) -> np.ndarray:
    if kind in ("pairs", "singles"):
        table = PAIRS if kind == "pairs" else SINGLES
        nibbles = table[rng.integers(0, len(table), (*shape, 8))]
        return np.bitwise_or.reduce(nibbles << (4 * np.arange(8, dtype=np.uint32)), -1)
    if kind.startswith("outside "):
        return _outside(rng, shape, kind.removeprefix("outside "), mode)
    if kind in FLOATS and mode != "raw":
        exponent, mantissa, unused = FLOATS[kind]
        per = 32 // (1 + exponent + mantissa + unused)
        bits = _floats(rng, (*shape, per), kind, mode).astype(np.uint64)
        shifts = (32 // per) * np.arange(per, dtype=np.uint64)
        return np.bitwise_or.reduce(bits << shifts, -1).astype(np.uint32)
    words = rng.integers(0, 1 << 32, shape, dtype=np.uint32)
    if kind == "edges":
        halves = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 0x7F80, 0x0080], np.uint32)
        edge = halves[rng.integers(0, 8, shape)] << 16 | halves[rng.integers(0, 8, shape)]
        small = rng.integers(-40, 40, shape).astype(np.int32).view(np.uint32)
        pick = rng.integers(0, 4, shape)
        words = np.where(pick == 0, edge, np.where(pick == 1, small, words))
    if kind == "s32":  # close to both ends, so that some sums overflow
        words = np.where(rng.random(shape) < 0.3, words | 0x7FFFC000, words)
    return words


NANS = np.array(
    [0x7FF7, 0xFFF7, 0xFFFF, 0x7FFF, 0xFE00, 0x7E00, 0xFC01, 0x7C01, 0xFFC0, 0x7FC0, 0xFF80, 0x7F80,
     0xFC00, 0x7C00, 0x8000, 0x0000], np.uint32,
)  # fmt: skip
"""NaNs of f16 and bf16, first that of `fma.oob`; infinities and zeros."""


def _outside(rng: np.random.Generator, shape: tuple[int, ...], kind: str, mode: str) -> np.ndarray:
    """Ordinary numbers among which one in four halves is out of `NANS`."""
    words = _words(rng, shape, kind, mode)
    for half in (0, 16):
        odd = NANS[rng.integers(0, len(NANS), shape)] << np.uint32(half)
        keep = words & ~np.uint32(0xFFFF << half)
        words = np.where(rng.random(shape) < 0.25, keep | odd, words)
    return words


_SPREAD = {"narrow": 2, "middle": 9, "wide": 300, "cancel": 4, "special": 3}


def _floats(rng: np.random.Generator, shape: tuple[int, ...], kind: str, mode: str) -> np.ndarray:
    e, m, unused = FLOATS[kind]
    most, middle = (1 << e) - 2, (1 << e - 1) - 1
    if mode in _SPREAD:
        spread = min(_SPREAD[mode], middle)
        field = rng.integers(middle - spread, middle + spread + 1, shape)
    elif mode == "tiny":
        field = rng.integers(0, 3, shape) + (middle // 2) * (rng.random(shape) < 0.5)
    else:
        field = most - rng.integers(0, 3, shape)
    x = (rng.integers(0, 2, shape) << e | np.clip(field, 0, most)) << m
    x = (x | rng.integers(0, 1 << m, shape)) << unused | rng.integers(0, 1 << unused, shape)
    x = np.where(rng.random(shape) < 0.06, 0, x)
    if mode == "special":
        specials = np.array([most + 1, most + 1 | 1 << e, most + 1, 1 << e], np.int64) << m
        specials[2] |= 1 << (m - 1)
        pick = specials[rng.integers(0, 4, shape)] << unused
        x = np.where(rng.random(shape) < 0.004, pick, x)
    return x


def _cancel(part: np.ndarray, kinds: tuple[str, ...]) -> None:
    """Makes neighbours equal in every other register and opposite in the rest."""
    for i, kind in enumerate(kinds):
        fields = FLOATS.get(kind, (32, 0, 0))
        if sum(fields) < 16:
            half = 1 + sum(fields)
            low = np.uint32(0xFFFFFFFF // ((1 << half) + 1))
            sign = np.uint32(0x80000000 if half == 16 else 0x80008000)
            part[:, i] = (part[:, i] & low) * np.uint32((1 << half) + 1) ^ (sign if i % 2 else 0)
