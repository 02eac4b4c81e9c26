"""The tables of docs/sanitizer.md, from the newest records of its benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from benchmark_records import rows_of

_TOOLS = ("weft", "gpu", "python")
Markdown = Callable[[Sequence[str], Iterable[Sequence[object]]], str]


def found_table(table: Markdown) -> str:
    """The table of the bugs of each kind that every tool has found."""
    newest = {r["tool"]: r for r in rows_of("sanitizer_table.jsonl")}
    cases = {tool: newest[tool]["cases"] for tool in _TOOLS if tool in newest}
    kinds = sorted({(c["kind"], c["language"]) for c in cases["weft"].values()})
    body = [
        (kind, language, *(_share(cases.get(tool, {}), kind, language) for tool in _TOOLS))
        for kind, language in kinds
    ]
    total = [_count(cases.get(tool, {}).values()) for tool in _TOOLS]
    body.append(("all", "", *(f"{lines} of {n}" for lines, n in total)))
    alarms = sum(bool(c.get("alarm")) for c in cases["weft"].values())
    header = ("kind", "language", "weft#", "compute-sanitizer#", "Triton's or Numba's own#")
    return (
        f"{table(header, body)}\n\nCases found with the right line, of the cases tried. weft "
        f"reported {alarms} false positives on {len(cases['weft'])} correct twins. "
        f"compute-sanitizer: {_when(newest.get('gpu'))}, all four tools, on an H200; "
        f"{_left_out(cases)}."
    )


def cost_table(table: Markdown) -> str:
    """Times and memory of each kernel of the benchmarks."""
    done = rows_of("sanitizer_cost.jsonl")[-1]
    body = [
        (c["name"], f"{1e3 * c['plain']:.1f}", f"{1e3 * c['sanitized']:.1f}", f"{c['times']:.1f}",
         f"{c['memory']:.1f}")
        for c in done["cases"]
    ]  # fmt: skip
    header = ("kernel", "plain, ms#", "sanitized, ms#", "times#", "records / arrays#")
    return (
        f"{table(header, body)}\n\nGeometric mean {done['mean']:.1f} times the plain simulation, "
        f"on one core of {done['machine']['cpu']}."
    )


def _share(cases: Mapping[str, Any], kind: str, language: str) -> str:
    mine = [c for c in cases.values() if (c["kind"], c["language"]) == (kind, language)]
    lines, n = _count(mine)
    return f"{lines} of {n}" if n else "-"


def _count(cases: Iterable[Mapping[str, Any]]) -> tuple[int, int]:
    every = list(cases)
    return sum(bool(c["line"]) for c in every), len(every)


def _when(record: Mapping[str, Any] | None) -> str:
    return record["when"][:10] if record else "not run"


def _left_out(cases: Mapping[str, Mapping[str, Any]]) -> str:
    cuda = sum(c["language"] == "CUDA C++" for c in cases["weft"].values())
    missing = cuda - len(cases.get("gpu", {}))
    return f"{missing} of the {cuda} CUDA C++ cases have not been tried there" if missing > 0 \
        else "all CUDA C++ cases"  # fmt: skip
