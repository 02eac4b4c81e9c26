"""The tables of docs/profile.md, from the records of the benchmarks."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmark_records import newest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from profiled.exact import is_exact  # noqa: E402

MISSES = "l1tex__m_xbar2l1tex_read_sectors.sum"
SMALL = 100_000
"""Bytes: with less traffic, what a launch itself needs outweighs what its kernel does."""


def reason(name: str, both: dict[str, list[float]], marks: Sequence[str] = ()) -> str:
    """The letter of the reason why an exact counter differs, as in docs/profile.md."""
    mine, theirs = both[name]
    shared, loads = (
        name.startswith(("l1tex__data_", "memory_l1_")),
        name.endswith("global_op_ld.sum"),
    )
    if "waits" in marks and loads and ("requests" in name or "sectors" in name):
        return "e"
    if "cp.async.cg" in marks and (loads or name.startswith("memory_l1_")):
        return "d"
    if "waits" in marks and loads:
        return "e"
    if "mem_local" in name and not mine:
        return "f"
    if "output_wavefronts" in name:
        return "a"
    if shared:
        return "b" if mine < theirs else "c"
    return "?"


def dram(both: dict[str, list[float]]) -> tuple[float, float]:
    """Bytes to and from memory: the model's and ncu's."""
    pairs = [both[f"dram__bytes_{op}.sum"] for op in ("read", "write")]
    return sum(a for a, _ in pairs), sum(b for _, b in pairs)


def ncu_rows() -> list[tuple[str, str, str, str, str, str]]:
    """One row a kernel."""
    return [_row(case) for case in newest("profile_vs_ncu.jsonl")["cases"]]


def _row(case: dict[str, Any]) -> tuple[str, str, str, str, str, str]:
    both = case["both"]
    exact = [n for n in both if is_exact(n)]
    differ = [n for n in exact if both[n][0] != both[n][1]]
    told = ", ".join(
        f"{_short(n)} {_ratio(both[n])} ({reason(n, both, case.get('marks', ()))})"
        for n in differ
        if "bank" not in n
    )
    threads, times = both["smsp__thread_inst_executed.sum"], both["smsp__inst_executed.sum"]
    lanes = " / ".join(f"{t / n:.1f}" for t, n in zip(threads, times, strict=True))
    equal = f"{len(exact) - len(differ)} of {len(exact)}"
    return f"`{case['name']}`", equal, told, _ratio(dram(both)), _ratio(both[MISSES]), lanes


def _short(name: str) -> str:
    """The end of a counter's name, which says what it is."""
    for long, short in (
        ("l1tex__t_output_wavefronts_pipe_lsu_mem_", "tag wavefronts "),
        ("l1tex__data_pipe_lsu_wavefronts_mem_", "wavefronts "),
        ("memory_l1_wavefronts_", "ncu's own wavefronts "),
        ("l1tex__t_sectors_pipe_lsu_mem_", "sectors "),
        ("l1tex__t_requests_pipe_lsu_mem_", "requests "),
        ("l1tex__t_set_accesses_pipe_lsu_mem_", "tags "),
    ):
        if name.startswith(long):
            return short + name.removeprefix(long).removesuffix(".sum").replace("_op_", " ")
    return name


def _ratio(pair: tuple[float, float] | list[float]) -> str:
    mine, theirs = pair
    if theirs:
        return f"{mine / theirs:.2f}"
    return "none" if not mine else f"{mine:.0f} / 0"


def within() -> tuple[int, int]:
    """Kernels whose DRAM bytes are within a quarter of ncu's, of those that move enough."""
    pairs = [dram(case["both"]) for case in newest("profile_vs_ncu.jsonl")["cases"]]
    some = [(a, b) for a, b in pairs if max(a, b) > SMALL]
    return sum(abs(a / b - 1) <= 0.25 for a, b in some), len(some)


def cost_rows() -> list[tuple[str, ...]]:
    """One row a case, and their mean."""
    run = newest("profile_cost.jsonl")
    rows = [
        (
            c["name"],
            f"{c['plain'] * 1e3:.0f}",
            f"{c['profiled'] * 1e3:.0f}",
            f"{c['times']:.2f}",
            f"{c['whole'] * 1e3:.0f}",
            f"{c['whole_times']:.2f}",
            f"{c['prediction']:.1%}",
        )
        for c in run["cases"]
    ]
    means = (f"{run['mean']:.2f}", "", f"{run['whole_mean']:.2f}", f"{run['most_prediction']:.1%}")
    return [*rows, ("geometric mean; most", "", "", *means)]


def debugger_rows() -> list[tuple[str, ...]]:
    """One row a case of the debugger's cost."""
    return [
        (
            c["name"],
            f"{min(c['plain'], c['after']) * 1e3:.1f}",
            f"{c['never'] * 1e3:.1f}",
            f"{c['times']:.2f}",
            f"{c['step'] * 1e3:.2f}",
        )
        for c in newest("debugger.jsonl")["cases"]
    ]
