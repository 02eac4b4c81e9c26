"""Draws the figures of the course from weft's own measurements: counters of the simulated GPU, and
times of a GPU from the records.

python scripts/tables.py            writes them with all other tables
python scripts/tables.py --check    fails when one is stale
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import charts
import numpy as np
from benchmark_records import RECORDS, newest, rows_of
from charts import Bar, Point

import weft
from weft.climbing import ladder, records
from weft.climbing.counters import FACTS
from weft.climbing.records import Climb
from weft.device import models
from weft.device.occupancy import occupancy
from weft.device.sim.run.draft import drafts
from weft.learn import drawing, puzzle
from weft.learn.chapter import HOME
from weft.learn.picture import picture
from weft.measure.expressions import number
from weft.report.ring.page import svg

ROOT = Path(__file__).resolve().parents[1]
COPY = """
__global__ void copy(const float* x, float* y, int stride) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i * stride];
}

__global__ void banks(float* y, int stride) {
    __shared__ float tile[33 * 32];
    int t = threadIdx.x;
    tile[t * stride] = t;
    __syncthreads();
    y[t] = tile[t * stride];
}
"""


def files() -> dict[Path, str]:
    """The figures, and where they are."""
    with drafts():
        return {HOME / name: draw() for name, draw in FIGURES.items()}


def _counter(name: str, launch: Any, *arguments: Any) -> float:
    """A counter of one launch on the simulated GPU."""
    profile = weft.profile(launch, *arguments)
    return FACTS[name].value(a for i in profile.instructions for a in i.accesses)


def strides() -> str:
    """Sectors per request of a warp that loads with a stride."""
    copy, y, rows = weft.cuda(COPY).copy, np.zeros(64, np.float32), []
    for stride in (1, 2, 4, 8, 16):
        x = np.ones(64 * stride, np.float32)
        sectors = _counter("load sectors per request", copy[1, 64], x, y, stride)
        rows.append(Bar(f"stride {stride}", sectors, f"{sectors:.0f} sectors", _best(stride == 1)))
    return charts.bars(
        "Sectors that move for one load of 32 floats", rows, "Counted by the simulated GPU."
    )


def banks() -> str:
    """Wavefronts per request of a warp that reads shared memory with a stride."""
    kernel, y, rows = weft.cuda(COPY).banks, np.zeros(32, np.float32), []
    for stride in (1, 2, 4, 8, 16, 32, 33):
        steps = _counter("shared load wavefronts per request", kernel[1, 32], y, stride)
        text = f"{steps:.0f} step{'s' if steps > 1 else ''}"
        rows.append(Bar(f"stride {stride}", steps, text, _best(steps == 1)))
    return charts.bars(
        "Steps that shared memory needs for one load of a warp",
        rows,
        "Counted by the simulated GPU. 33 is a padded row of 32.",
    )


def _best(is_best: bool) -> str:
    return "best" if is_best else "plain"


# ---- levels of memory --------------------------------------------------------------------------
def levels() -> str:
    """A chart of the latency of each level of memory for one thread."""
    record = newest("memory_levels.jsonl")
    rows = [
        Bar(level, row["cycles"], f"{row['cycles']:.0f} cycles")
        for level, row in record["latency"].items()
    ]
    return charts.bars(
        "Until the next instruction can use a result",
        rows,
        f"Measured on an {record['gpu']}, {record['when'][:10]}.",
    )


GERMAN: Mapping[str, str] = {
    "cycles": "Takte",
    "all SMs together": "alle SMs zusammen",
    "driver": "Treiber",
    "multiply and add": "Multiplikation und Addition",
    "shared memory": "gemeinsamer Speicher",
    "L1 cache": "L1-Cache",
    "L2 cache": "L2-Cache",
    "global memory": "globaler Speicher",
}
"""Words of the table of levels."""


def levels_table(words: Mapping[str, str] = types.MappingProxyType({})) -> str:
    """Latencies and throughputs, for chapter 1; `words` translates the names."""
    record = newest("memory_levels.jsonl")
    head = ("cycles", "ns", "all SMs together")
    shown = " | ".join(words.get(name, name) for name in head)
    lines = [f"| | {shown} |", "| --- | --: | --: | --: |"]
    for level, row in record["latency"].items():
        rate = record["throughput"].get(level)
        delivered = f"{rate / 1e12:.1f} TB/s" if rate else ""
        # German has a comma in decimal fractions.
        delivered = delivered.replace(".", ",") if words else delivered
        name = words.get(level, level)
        lines.append(f"| {name} | {row['cycles']:.0f} | {row['ns']:.0f} | {delivered} |")
    driver = words.get("driver", "driver")
    about = f"{record['gpu']}, {driver} {record['driver']}, {record['when'][:10]}."
    return "\n".join([about, "", *lines])


# ---- ladders -----------------------------------------------------------------------------------
def _climb(name: str) -> Climb:
    return records.climb(RECORDS / "ladders.jsonl", name)


def _rates(name: str, per: str, unit: float, words: str) -> str:
    """A chart of the rates of a ladder's rungs, on the case that most of them were timed on."""
    climb, op = _climb(name), ladder.find(name).op
    cases = {repr(case): case for case in op.bench}
    case = max(cases, key=lambda c: sum(t.case == c for r in climb.rungs for t in r.times))
    amount = number(getattr(op, per), cases[case].sizes)
    rungs = [(r.title, t.seconds) for r in climb.rungs for t in r.times if t.case == case]
    peers = [(n, t.seconds) for n, times in climb.peers.items() for t in times if t.case == case]
    fastest = min(seconds for _, seconds in rungs)
    rows = [
        Bar(title, amount / s / unit, f"{amount / s / unit:.3g} {words}", _best(s == fastest))
        for title, s in rungs
    ]
    peer, seconds = min(peers, key=lambda row: row[1])
    compiled = "torch.compile" if peer.startswith("compile") else "PyTorch"
    rate = amount / seconds / unit
    rows.append(Bar(compiled, rate, f"{rate:.3g} {words}", "other"))
    return charts.bars(
        f"weft climb {name}: {case}", rows, f"Measured on an {climb.gpu}, {climb.when[:10]}."
    )


def roof() -> str:
    """The first and the best rung of some ladders under the roof of an H200."""
    model = models.get("h200")
    points = []
    for name in ("vecadd", "reduce", "softmax", "matmul"):
        climb, op = _climb(name), ladder.find(name).op
        times = {(r.number, t.case): t.seconds for r in climb.rungs for t in r.times}
        for case in op.bench[:1]:
            mine = [s for (_, c), s in times.items() if c == repr(case)]
            work, moved = (number(text, case.sizes) for text in (op.flops, op.bytes))
            points.append(Point(name, work / moved, work / min(mine), "best"))
            if max(mine) > 3 * min(mine):
                points.append(Point("", work / moved, work / max(mine)))
    note = "Green: best rung; blue: slowest. Measured on an NVIDIA H200."
    return charts.roofline(
        "The roofline of an H200 in float32",
        1e9 * model.memory_gb_per_s,
        1e12 * model.fp32_tflops,
        points,
        note,
    )


def resident() -> str:
    """The occupancy of blocks of 256 threads by the registers of a thread."""
    model, rows = models.get("h200"), []
    for registers in (32, 40, 64, 80, 128, 168, 255):
        found = occupancy(model, threads=256, registers=registers, shared_bytes=0)
        text = f"{found.warps} warps"
        label = f"{registers} registers"
        rows.append(Bar(label, found.warps, text, _best(found.warps == found.max_warps)))
    return charts.bars(
        "Resident warps of an SM, of 64, with blocks of 256 threads",
        rows,
        "Computed by weft's rules for an H200.",
    )


def launches() -> str:
    """A training step in PyTorch, launched one by one and as a graph."""
    steps = rows_of("train_mnist.jsonl")
    both = [[r for r in s["train_mnist"] if {"eager", "graph"} <= r["us"].keys()] for s in steps]
    rows = [r for r in next(filter(None, reversed(both))) if r["precision"] == "fp32"]
    out = []
    for row in rows:
        for key in ("eager", "graph"):
            us, label = row["us"][key], f"batch {row['batch']}, {key}"
            out.append(Bar(label, us, f"{us:,.0f} µs", _best(key == "graph")))
    return charts.bars(
        "A training step of chapter 20 in PyTorch", out, "Measured on an NVIDIA H200."
    )


def filters_table() -> str:
    """Convolutions of a large image by the size of the filter, for chapter 11."""
    lines = rows_of("network_ops.jsonl")
    record = [r for r in lines if r["family"] == "large filters"][-1]
    side = record["image"][-1]
    out = [
        f"{record['gpu']}, driver {record['driver']}, torch {record['torch']}, {record['date']}; "
        f"an image of {side} x {side} in float32, microseconds as called.",
        "",
        "| filter | PyTorch (cuDNN) | weft |",
        "| --- | --: | --: |",
    ]
    for row in record["measured"]:
        size = f"{row['filter']} x {row['filter']}"
        out.append(f"| {size} | {row['torch_us']:,.0f} | {row['weft_us']:,.0f} |")
    return "\n".join(out)


# ---- accesses ----------------------------------------------------------------------------------
def _accesses(name: str) -> Callable[[], str]:
    def draw() -> str:
        answer = puzzle.find(name).answers["cuda"]
        return drawing.svg(picture(answer, answer.solution))

    return draw


def _ring(layout: str) -> Callable[[], str]:
    """The steps of ring attention on four GPUs under a causal mask."""
    return lambda: svg(weft.distributed.schedule(layout, 4, length=4096))


FIGURES: Mapping[str, Callable[[], str]] = {
    "ch01_gpu/figure_levels.svg": levels,
    "ch02_first_kernel/figure_blocks.svg": _accesses("blocks"),
    "ch04_memory/figure_strides.svg": strides,
    "ch04_memory/figure_transpose.svg": lambda: _rates("transpose", "bytes", 1e12, "TB/s"),
    "ch05_shared_memory/figure_banks.svg": banks,
    "ch07_reductions/figure_reduce.svg": lambda: _rates("reduce", "bytes", 1e12, "TB/s"),
    "ch08_matmul/figure_matmul.svg": lambda: _rates("matmul", "flops", 1e12, "TFLOP/s"),
    "ch09_profiling/figure_roofline.svg": roof,
    "ch09_profiling/figure_occupancy.svg": resident,
    "ch11_convolution/figure_stencil.svg": _accesses("stencil"),
    "ch14_attention/figure_softmax.svg": lambda: _rates("softmax", "bytes", 1e12, "TB/s"),
    "ch18_streams/figure_launches.svg": launches,
    "ch29_flash_attention/figure_contiguous.svg": _ring("contiguous"),
    "ch29_flash_attention/figure_striped.svg": _ring("striped"),
}
"""File in the folder of chapters -> what draws it."""
