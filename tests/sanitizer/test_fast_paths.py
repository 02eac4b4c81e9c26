"""Fast paths find what is found lane by lane: rows of records, batches that are checked at once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest

import weft
from weft.device.sim.tools.sanitizer import batches
from weft.device.sim.tools.sanitizer.layout import Apart, FindingKind
from weft.device.sim.tools.sanitizer.observer import Sanitizer, Seen
from weft.device.sim.tools.sanitizer.shadow.fast import FastShadow
from weft.ir import Builder, Val

BLOCK = 128
STEPS = {
    "reads": lambda r: " ".join(
        f"v += {r.choice(['s', 'u'])}[t + {r.integers(0, 40)}];" for _ in range(r.integers(1, 5))
    ),
    "column": lambda r: (
        f"v += s[t * {r.integers(1, 3)} + {r.integers(0, 9)}] + s[{r.integers(99)}];"
    ),
    "write": lambda r: f"s[t + {r.integers(0, 40)}] = z + {r.integers(1, 9)};",
    "other": lambda r: f"u[t + {r.integers(0, 9)}] = z + 1;",
    "some": lambda r: f"if (t < {32 * r.integers(1, 4)}) s[t + {r.integers(0, 99)}] = z + 2;",
    "half": lambda r: (
        f"if (t < {r.integers(1, 128)}) {{ int q = {r.integers(0, 40)};"
        f" v += s[t + q]; s[t + q] = z + {r.integers(1, 9)}; }}"
    ),
    "tree": lambda r: (
        f"if (t < {r.choice([16, 50, 64, 128])}) {{ v += s[t] + s[t + {r.integers(0, 70)}];"
        f" s[t] = z + {r.integers(1, 9)}; }}"
    ),
    "copy": lambda r: (
        f"v += s[t + {r.integers(0, 40)}] + u[{r.integers(60)}];"
        f" u[t + {r.integers(0, 40)}] = z + {r.integers(1, 9)}; s[t * {r.integers(1, 3)}] = z + 5;"
    ),
    "gaps": lambda r: f"if (t & {r.integers(1, 32)}) s[t + {r.integers(0, 40)}] = z + 3;",
    "ends": lambda r: "if (t % 32 == 0 || t % 32 == 31) v += s[t];",
    "part": lambda r: f"if (t < {r.integers(1, 99)}) v += s[t] + s[t + 1];",
    "barrier": lambda r: "__syncthreads();",
    "pair": lambda r: 'if (t < PAIR) asm volatile("bar.sync 1, PAIR;" ::: "memory");',
    "warp": lambda r: "__syncwarp();",
    "shuffle": lambda r: "v += __shfl_xor_sync(0xffffffff, v, 1);",
    "exit": lambda r: f"if (t >= {32 * r.integers(2, 4)}) {{ y[t] = v; return; }}",
}
"""Steps of a random kernel. What is stored does not depend on what was read."""
SALTS = itertools.count(0x1A73B5D)
"""The values that launches store: a write of an equal value is no hazard. Memory may hold the
results of an earlier launch, or anything else: round numbers such as 1 << 26 are found there.
"""
OFTEN = (
    *("reads",) * 4, *("some",) * 3, *("half",) * 3, *("tree",) * 3,
    *("copy", "gaps", "ends", "column"), *("barrier", "barrier", "warp", "shuffle", "exit"),
)  # fmt: skip


class LaneByLane(Sanitizer):
    """The sanitizer without batches and rows of records."""

    key = "sanitizer, lane by lane"


def _never(_: FastShadow, b: Builder, *what: object) -> Callable[..., Val]:
    """A fast path that leaves every access to the slow one."""
    return lambda *args: b.integer("i1", 0)


def _kernels(seed: int, block: int, count: int) -> tuple[str, list[str]]:
    """Random kernels, all in one module."""
    rng, texts = np.random.default_rng([seed, block]), []
    for i in range(count):
        names = rng.choice([*OFTEN, *STEPS], rng.integers(6, 18))
        body = "\n    ".join(STEPS[name](rng) for name in names)
        texts.append(
            f"""extern "C" __global__ void k{i}(int* y, int z) {{
    __shared__ volatile int filler[3];
    __shared__ int s[300], u[200];
    int t = threadIdx.x, v = 0;
    z += 16 * blockIdx.x;
    for (int j = t; j < 150; j += {BLOCK}) s[j] = u[j] = z;
    if (blockIdx.x) __syncthreads();
    {body}
    filler[0] = 1;
    y[blockIdx.x * {BLOCK} + t] = v;
}}"""
        )
    text = "\n".join(texts).replace("PAIR", str(min(64, block)))
    return text, [f"k{i}" for i in range(count)]


def _found(seen: Seen | None) -> tuple[Sequence[tuple[int, ...]], int, int]:
    assert seen is not None and seen.error is None
    rows = [
        (r.kind, r.apart, r.times, r.index, r.mine, r.other_index, r.other, r.block)
        for r in seen.raw
    ]
    return sorted(rows), seen.counts.accesses, seen.counts.barriers


@pytest.mark.parametrize("block", [BLOCK, 32])
def test_fast_paths_find_what_is_found_lane_by_lane(
    block: int, seed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_THREADS", "1")
    text, names = _kernels(int(seed), block, 10)
    module = weft.cuda(text, options=["--diag-suppress=550"])
    found = {}
    for observer in (Sanitizer(), LaneByLane()):
        if observer.key == LaneByLane.key:
            monkeypatch.setattr(batches, "plan", lambda *_: [])
            monkeypatch.setattr(FastShadow, "row", _never)
            monkeypatch.setattr(FastShadow, "some", _never)
        for name in names:
            y = np.zeros(2 * BLOCK, np.int32)
            module.kernel(name)[2, block].observe(observer, y, 64 * next(SALTS))
            found[observer.key, name] = _found(observer.take())
    for name in names:
        (rows, *counts), (exact, *others) = (
            found[k, name] for k in (Sanitizer.key, LaneByLane.key)
        )
        apart = set(rows) ^ set(exact)
        assert rows == exact and counts == others, f"{name}: {apart}, {counts}, {others}\n{text}"
    assert any(rows for rows, *_ in found.values()), "some kernels race"


def test_a_write_after_the_reads_of_another_warps_loop_is_found() -> None:
    """Nothing else needs the records before the block ends."""
    kernel = weft.cuda(
        """extern "C" __global__ void k(int* y, int n) {
    __shared__ int s[256];
    int t = threadIdx.x, v = 0;
    s[t] = s[t + 128] = 1;
    __syncthreads();
    #pragma unroll 1
    for (int j = 0; j < n; j += 32) v += s[t + 32 + j];
    s[t] = 2;
    y[t] = v;
}"""
    ).kernel("k")
    observer = Sanitizer()
    for n, times in ((32, 96), (64, 96), (0, 0)):
        kernel[1, BLOCK].observe(observer, np.zeros(BLOCK, np.int32), n)
        rows, *_ = _found(observer.take())
        assert sum(r[2] for r in rows) == times, n
        assert all(r[:2] == (FindingKind.WRITE_AFTER_READ, Apart.WARPS) for r in rows)
