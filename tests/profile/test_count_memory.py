"""Counters of memory accesses, against what an H200 counted and against a slow oracle."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import memory_oracle as oracle
import weft
from folders import TESTS
from memory_kernels import OFF, Kind, load, plain, register
from weft.device import models
from weft.device.occupancy import occupancy
from weft.device.sim.tools.counters.counting import Counting
from weft.measure.profile import aggregate
from weft.values.profile import Access

GOLDEN = TESTS / "golden" / "memory"
WIDTHS = {8: 1, 16: 2, 32: 4, 64: 8, 128: 16}


KINDS: dict[str, Kind] = {
    **{f"s_ld{b}": plain("shared", "ld", w) for b, w in WIDTHS.items()},
    **{f"s_st{b}": plain("shared", "st", w) for b, w in WIDTHS.items()},
    **{f"g_ld{b}": plain("global", "ld", w) for b, w in WIDTHS.items()},
    **{f"g_st{b}": plain("global", "st", w) for b, w in WIDTHS.items()},
    **{f"l_ld{b}": plain("local", "ld", w) for b, w in WIDTHS.items()},
    **{f"l_st{b}": plain("local", "st", w) for b, w in WIDTHS.items()},
    "s_ld32vol": plain("shared", "ld", 4, ".volatile"),
    "g_ld32cg": Kind("global", 4, "ld.global.cg.u32 %x0, [{a}];"),
    "g_ld32nc": Kind("global", 4, "ld.global.nc.u32 %x0, [{a}];"),
    "g_ld128nc": Kind("global", 16, "ld.global.nc.v4.u32 {%x0, %x1, %x2, %x3}, [{a}];"),
    "g_st32vol": plain("global", "st", 4, ".volatile"),
    **{
        f"m_{op}{n}{t}": Kind("shared", 16, text)
        for n, regs in ((1, "{%x0}"), (2, "{%x0, %x1}"), (4, "{%x0, %x1, %x2, %x3}"))
        for t, trans in (("", ""), ("t", ".trans"))
        for op, text in (
            ("ld", f"ldmatrix.sync.aligned.m8n8.x{n}{trans}.shared.b16 {regs}, [{{a}}];"),
            ("st", f"stmatrix.sync.aligned.m8n8.x{n}{trans}.shared.b16 [{{a}}], {regs};"),
        )
        if f"m_{op}{n}{t}" != "m_st2t"
    },
    "sa_add32": Kind("shared", 4, "atom.shared.add.u32 %x1, [{a}], %x0;"),
    "sa_max32": Kind("shared", 4, "atom.shared.max.u32 %x1, [{a}], %x0;"),
    "sa_inc32": Kind("shared", 4, "atom.shared.inc.u32 %x1, [{a}], %x0;"),
    "sa_exch32": Kind("shared", 4, "atom.shared.exch.b32 %x1, [{a}], %x0;"),
    "sa_cas32": Kind("shared", 4, "atom.shared.cas.b32 %x1, [{a}], %x0, %x2;"),
    "sa_cas64": Kind("shared", 8, "atom.shared.cas.b64 %y1, [{a}], %y0, %y2;"),
    "sa_add64": Kind("shared", 8, "atom.shared.add.u64 %y1, [{a}], %y0;"),
    "sa_addf32": Kind("shared", 4, "atom.shared.add.f32 %f1, [{a}], %f0;"),
    "sr_add32": Kind("shared", 4, "red.shared.add.u32 [{a}], %x0;"),
    "a_add32": Kind("global", 4, "atom.global.add.u32 %x1, [{a}], %x0;"),
    "a_add64": Kind("global", 8, "atom.global.add.u64 %y1, [{a}], %y0;"),
    "a_addf32": Kind("global", 4, "atom.global.add.f32 %f1, [{a}], %f0;"),
    "a_addf64": Kind("global", 8, "atom.global.add.f64 %d1, [{a}], %d0;"),
    "a_cas32": Kind("global", 4, "atom.global.cas.b32 %x1, [{a}], %x0, %x2;"),
    "a_exch32": Kind("global", 4, "atom.global.exch.b32 %x1, [{a}], %x0;"),
    "r_add32": Kind("global", 4, "red.global.add.u32 [{a}], %x0;"),
    "r_add64": Kind("global", 8, "red.global.add.u64 [{a}], %y0;"),
    "r_addf32": Kind("global", 4, "red.global.add.f32 [{a}], %f0;"),
    "r_addf32v2": Kind("global", 8, "red.global.v2.f32.add [{a}], {%f0, %f1};"),
    "r_addf32v4": Kind("global", 16, "red.global.v4.f32.add [{a}], {%f0, %f1, %f2, %f3};"),
    **{
        f"c_ca{w}": Kind("global", w, f"cp.async.ca.shared.global [{{t}}], [{{a}}], {w};", rows=2)
        for w in (4, 8, 16)
    },
}
COLUMNS = {
    "s": ("wavefronts", "conflicts"),
    "m": ("wavefronts", "conflicts"),
    "l": ("requests", "sectors", "tags"),
    "": ("requests", "sectors", "tags", "tag_wavefronts"),
}
CHUNK = 16
"""Recorded launches that are compared together."""


@cache
def _recorded() -> dict[str, np.ndarray]:
    with np.load(GOLDEN / "patterns.npz") as archive:
        return {key: archive[key] for key in archive.files}


def _offsets(rows: np.ndarray) -> np.ndarray:
    wide = rows.astype(np.uint32)
    wide[rows == 0xFFFF] = OFF
    return wide


@pytest.mark.parametrize("name", sorted(KINDS))
def test_counters_are_those_of_an_h200(name: str) -> None:
    rows, n, v = (_recorded()[f"{name}__{x}"] for x in ("rows", "n", "v"))
    columns = COLUMNS.get(name[0], COLUMNS[""])[: v.shape[1]]
    ends = np.cumsum(n, dtype=np.int64)
    loaded = load(KINDS[name])
    for i in range(0, len(n), CHUNK):
        last = min(i + CHUNK, len(n))
        part = _offsets(rows[ends[i] - n[i] : ends[last - 1]])
        seen = loaded.run(part) or Access(loaded.kind.space, "")
        got = [getattr(seen, c) for c in columns]
        assert got == v[i:last].sum(0).tolist(), f"{name}: launches {i} to {last - 1}"


def _patterns(rng: np.random.Generator, width: int, span: int) -> dict[int, int]:
    """Lanes and aligned offsets: random, few places, strides, neighbours, rows."""
    units, lanes = span // width, np.arange(32)
    choice = rng.integers(6)
    if choice == 0:
        at = rng.integers(0, units, 32)
    elif choice == 1:
        at = rng.choice(rng.integers(0, units, int(rng.integers(1, 5))), 32)
    elif choice == 2:
        at = rng.integers(0, 64) + lanes * rng.integers(0, 40)
    elif choice == 3:
        at = rng.integers(0, 64) + rng.permutation(32)
    elif choice == 4:
        at = lanes // 8 * rng.integers(1, 300) + lanes % 8
    else:
        at = lanes ^ rng.integers(0, 32)
    active = rng.random(32) < rng.choice([1.0, 1.0, 0.5, 0.1])
    return {int(i): int(at[i] % units) * width for i in lanes if active[i]}


def _expected(kind: Kind, lanes: dict[int, int], name: str) -> dict[str, int]:
    if name[0] == "m":
        return oracle.matrix_access(lanes)
    if kind.space == "shared":
        return oracle.shared_access(lanes, kind.width, reads="_ld" in name)
    if kind.space == "local":
        return oracle.local_access(lanes, kind.width)
    if name[0] in "ar":
        return oracle.global_atomic(lanes, kind.width, cas="cas" in name)
    return oracle.global_access(lanes, kind.width)


@pytest.mark.parametrize(
    "name",
    [
        "s_ld8",
        "s_ld32",
        "s_ld64",
        "s_st128",
        "m_ld4",
        "g_ld16",
        "g_ld128",
        "g_st32",
        "l_ld32",
        "l_st128",
        "a_add32",
        "a_cas32",
        "r_add64",
    ],
)
def test_counters_are_those_of_the_oracle(name: str, seed: str) -> None:
    kind = KINDS[name]
    rng = np.random.default_rng([int(seed), *name.encode()])
    span = {"shared": 32 * 1024, "local": 1024, "global": 1 << 17}[kind.space]
    loaded = load(kind)
    for _ in range(8):
        many = [_patterns(rng, kind.width, span) for _ in range(12)]
        if name[0] == "m":  # all lanes execute it
            many = [{i: p.get(i, 0) for i in range(32)} for p in many]
        rows = np.full((len(many), 32), OFF, np.uint32)
        total: dict[str, int] = {}
        for row, lanes in zip(rows, many, strict=True):
            for lane, at in lanes.items():
                row[lane] = at
            for key, n in (_expected(kind, lanes, name) if lanes else {}).items():
                total[key] = total.get(key, 0) + n
        seen = loaded.run(rows)
        got = {key: getattr(seen, key) if seen else 0 for key in total}
        assert got == total, rows.tolist()


AFFINE = [
    (space, op, width, stride, start)
    for space in ("shared", "global")
    for op in ("ld", "st")
    for width in (1, 2, 4, 8, 16)
    for stride in (0, width, 2 * width, 32, 36 * width, 132)
    for start in (0, 96)
    if stride % width == 0
]


@pytest.mark.parametrize("lanes", [32, 20])
def test_addresses_known_beforehand_count_as_others(lanes: int) -> None:
    """Distances that are known when code is made take other ways; `lanes` of the warp run."""
    body = []
    for i, (space, op, width, stride, start) in enumerate(AFFINE):
        ty, reg = register(width)
        base = "%s" if space == "shared" else "%d"
        bits = "u32" if space == "shared" else "u64"
        body.append(f"mad.lo.{bits} %a{bits[1:]}_{i}, %l{bits[1:]}, {stride}, {base};")
        mem = f"[%a{bits[1:]}_{i}+{start}]"
        body.append(f"{op}.{space}.{ty} " + (f"{reg}, {mem};" if op == "ld" else f"{mem}, {reg};"))
    names = {f"%a{'32' if space == 'shared' else '64'}_{i}" for i, (space, *_) in enumerate(AFFINE)}
    text = f"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 data) {{
    .reg .b16 %h0;
    .reg .b32 %s, %l32, %x<4>, {", ".join(sorted(n for n in names if n.startswith("%a32")))};
    .reg .b64 %d, %l64, {", ".join(sorted(n for n in names if n.startswith("%a64")))};
    .shared .align 1024 .b8 mem[32768];
    ld.param.u64 %d, [data];
    mov.u32 %s, mem;
    mov.u32 %l32, %tid.x;
    cvt.u64.u32 %l64, %l32;
    {" ".join(body)}
    ret;
}}
"""
    counting = Counting(l1_lines=1024, resident=132)
    data = np.zeros(32768, np.uint8)
    weft.load_ptx(text).k[1, lanes].observe(counting, data)
    assert counting.counts is not None
    found = [i.accesses[0] for i in aggregate.instructions(counting.counts) if i.accesses]
    assert len(found) == len(AFFINE)
    for seen, (space, op, width, stride, start) in zip(found, AFFINE, strict=True):
        at = {i: start + i * stride for i in range(lanes)}
        if space == "shared":
            want = oracle.shared_access(at, width, reads=op == "ld")
        else:
            want = oracle.global_access(at, width)
        got = {key: getattr(seen, key) for key in want}
        assert got == want, (space, op, width, stride, start)


def test_occupancy_is_the_drivers() -> None:
    with np.load(GOLDEN / "occupancy.npz") as archive:
        cases = archive["regs_threads_smem_blocks"].tolist()
    gpu = models.get("h200")
    wrong: list[Any] = [
        case
        for case in cases
        if occupancy(gpu, threads=case[1], registers=case[0], shared_bytes=case[2]).blocks
        != case[3]
    ]
    assert len(cases) == 26228
    assert wrong == []
