"""Tables of the course's chapters, from records of an H200."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import ladder_tables
import profile_tables

from weft.report.words import duration

Table = Callable[[Sequence[str], Iterable[Sequence[object]]], str]
_SIZE = "M=4096, N=4096, K=4096"
_FIRST = 4
"""The last rung for Ampere: those after it use the instructions of Hopper."""
_KERNELS = (
    "copy", "copy_strided", "copy_far", "transpose_naive", "transpose_conflict", "transpose_padded",
    "matmul_tiled", "blur",
)  # fmt: skip
_LSU = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"


def hopper_rungs(table: Table) -> str:
    """The rungs of the ladder matmul_bf16 from the last one for Ampere on."""
    climb = ladder_tables.timed()["matmul_bf16"]
    rungs = [(climb.named(r), r.times) for r in climb.rungs if r.number >= _FIRST]
    peers = [(f"`{name}`", times) for name, times in climb.peers.items()]
    rows = [
        (name, duration(t.seconds), f"{t.of_limit:.0%}")
        for name, times in (*rungs, *peers)
        for t in times
        if t.case.startswith(_SIZE)
    ]
    made = table(("rung", "time#", "of 989 TFLOP/s#"), rows)
    return f"{climb.gpu}, {climb.when[:10]}, {_SIZE}:\n\n{made}"


def ncu_counters(table: Table) -> str:
    """Counters of a few kernels: the simulator's, and those of ncu on an H200."""
    run = profile_tables.newest("profile_vs_ncu.jsonl")
    cases = {case["name"]: case["both"] for case in run["cases"]}
    rows = [(f"`{name}`", *_cells(cases[name])) for name in _KERNELS]
    header = ("kernel", "load sectors per request#", "store sectors per request#",
              "bank conflicts of loads#", "bank conflicts of stores#")  # fmt: skip
    return f"{run['gpu']}, {run['when'][:10]}; weft / ncu:\n\n{table(header, rows)}"


def _cells(both: Mapping[str, Sequence[float]]) -> Iterable[str]:
    for op in ("ld", "st"):
        pairs = zip(
            both[_LSU.format("sectors", op)], both[_LSU.format("requests", op)], strict=True
        )
        yield " / ".join(f"{sectors / requests:.4g}" for sectors, requests in pairs)
    for op in ("ld", "st"):
        yield " / ".join(f"{count:,.0f}" for count in both[_CONFLICTS.format(op)])


TABLES: Mapping[str, Callable[[Table], str]] = {
    "hopper_rungs": hopper_rungs,
    "ncu_counters": ncu_counters,
}
