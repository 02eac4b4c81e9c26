"""One run as a record: times, ratios, and the targets they are held to."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from simspeed.contest import Result, Times

Record = dict[str, Any]


def geomean(values: Sequence[float]) -> float | None:
    return math.exp(statistics.fmean(map(math.log, values))) if values else None


def case_record(r: Result) -> Record:
    """A case: seconds of every contender, and ratios of rounds run side by side."""
    modes = [m for m in ("weft", "fast") if f"{m} 1" in r.times]
    return {
        "name": r.case.name,
        "kernel": r.case.kernel,
        "work": r.case.work,
        "unit": r.case.unit,
        "large": r.case.large,
        "times": {name: _seconds(t) for name, t in r.times.items()},
        "against": {
            m: {t: r.ratio(f"c++ {t}", f"{m} 1", "cpu") for t in r.case.twins} for m in modes
        },
        "against_by_clock": {
            m: {t: r.ratio(f"c++ {t}", f"{m} 1") for t in r.case.twins} for m in modes
        },
        "two_cores": {m: r.ratio(f"{m} 1", f"{m} 2") for m in modes},
        # what two idle cores could reach: sharing out costs processor time, waiting does not
        "two_cores_bound": {m: 2 * r.ratio(f"{m} 1", f"{m} 2", "cpu") for m in modes},
    }


def _seconds(t: Times) -> Record:
    return {
        "median": statistics.median(t.wall),
        "least": min(t.wall),
        "cpu_median": statistics.median(t.cpu),
        "cpu_least": min(t.cpu),
        "rounds": len(t.wall),
    }


def against_other(cases: Sequence[Record], other: Record) -> dict[str, float]:
    """The rate of weft on one core over a simulator's, by kernel, at weft's largest size."""
    rates = {c["kernel"]: c["work"] / c["times"]["weft 1"]["cpu_median"] for c in cases}
    done = other["cases"]
    return {k: rates[k] * done[k]["seconds"] / done[k]["work"] for k in done if k in rates}


def first_twins(record: Record) -> list[float]:
    """Exact mode against the twin that computes the same bits."""
    return [next(iter(c["against"]["weft"].values())) for c in record["cases"]]


def last_twins(record: Record) -> list[float]:
    """The same with tensor cores against plain float arithmetic."""
    return [list(c["against"]["weft"].values())[-1] for c in record["cases"]]


def fast_mode(record: Record) -> list[float]:
    """The same with tensor cores in fast mode against plain float arithmetic."""
    return [
        list(c["against"].get("fast", c["against"]["weft"]).values())[-1] for c in record["cases"]
    ]


def scaling(record: Record) -> list[float]:
    return [c["two_cores"]["weft"] for c in record["cases"] if c["large"]]


@dataclass(frozen=True)
class Target:
    """A figure of a record and what it must reach: at least `least`, or less than `below`."""

    name: str
    value: Callable[[Record], float | None]
    least: float | None = None
    below: float | None = None
    show: str = "{:.2f} x"
    scale: float = 1.0  # from the record's unit, seconds or bytes, to the one shown

    @property
    def limit(self) -> float:
        return self.least if self.least is not None else (self.below or 0.0)

    def text(self, value: float) -> str:
        return self.show.format(value * self.scale)

    def met(self, value: float) -> bool:
        return value >= self.least if self.least is not None else value < self.limit


def _other(name: str) -> Callable[[Record], float | None]:
    return lambda r: geomean(list((r["others"].get(name) or {}).get("times", {}).values()))


def _fresh(*path: str) -> Callable[[Record], float | None]:
    def value(record: Record) -> float | None:
        at: Any = record
        for key in path:
            at = at.get(key) if at else None
        return None if at is None else float(at)

    return value


TARGETS = [
    Target("C++, one core, geometric mean", lambda r: geomean(first_twins(r)), least=1.0),
    Target("one core to two, least of the large", lambda r: min(scaling(r), default=None), 1.7),
    Target("numba's simulator, geometric mean", _other("numba"), 1e4, show="{:,.0f} x"),
    Target("Triton's interpreter, geometric mean", _other("triton"), 1000, show="{:,.0f} x"),
    Target("first launch from source", _fresh("start", "cold", "to_result_s"),
           below=0.3, show="{:.0f} ms", scale=1e3),
    Target("first launch from the cache", _fresh("start", "cached", "to_result_s"),
           below=0.05, show="{:.0f} ms", scale=1e3),
    Target("warm launch of an empty kernel", _fresh("empty", "empty_s"),
           below=30e-6, show="{:.1f} µs", scale=1e6),
    Target("peak memory above the arrays", _fresh("memory", "above_arrays"),
           below=250e6, show="{:.0f} MB", scale=1e-6),
]  # fmt: skip
BESIDE = [
    ("C++, tensor cores against plain float", lambda r: geomean(last_twins(r))),
    ("C++, tensor cores in fast mode against plain float", lambda r: geomean(fast_mode(r))),
    ("one core to two, geometric mean of the large", lambda r: geomean(scaling(r))),
]


def judge(record: Record) -> list[Record]:
    """Every target that this run has a figure for."""
    out = []
    for target in TARGETS:
        value = target.value(record)
        if value is not None:
            met = target.met(value)
            out.append({"name": target.name, "value": value, "limit": target.limit, "met": met})
    return out
