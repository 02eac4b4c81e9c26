"""Formats a compiled model: each graph as a table of its kernels, and what is left to PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weft.report import words
from weft.report.page import render
from weft.report.words import Block, Table
from weft.values.explanation import (
    FUSED,
    OP,
    TORCH,
    ExplainedGraph,
    ExplainedStep,
    ModelExplanation,
    NotFused,
)

_COLUMNS = ("share", "time", "bound", "bytes", "FLOPs", "kind", "step", "layer")
_RIGHT = ("share", "time", "bytes", "FLOPs")
MEANING = {
    FUSED: "a kernel that weft writes for these operations",
    OP: "an op of weft",
    TORCH: "left to PyTorch",
}


def view(found: ModelExplanation) -> Iterator[Block]:
    """Every graph with its steps, and why PyTorch computes what it does."""
    for graph in found.graphs:
        yield f"{found.model} on {found.gpu}, {graph.kind}: {summary(graph)}", "bold"
        yield Table(_COLUMNS, [_row(step, found.seconds) for step in graph.steps], _RIGHT)
        if graph.apart:
            yield f"Not fused, {graph.kind}", "bold"
        for pair in graph.apart:
            yield f"{neighbours(pair)}: {pair.why}", ""
    if not found.left:
        yield "Nothing is left to PyTorch", "dim"
        return
    yield "Left to PyTorch", "bold"
    for name, why in found.left.items():
        yield f"{name}: {why}", ""


def text(found: ModelExplanation) -> str:
    """The same as plain text."""
    return words.plain(view(found))


def summary(graph: ExplainedGraph) -> str:
    """The steps of a graph in numbers; times are modelled."""
    return (
        f"{len(graph.steps)} steps ({graph.count(OP)} ops, {graph.count(FUSED)} fused, "
        f"{graph.count(TORCH)} by PyTorch), {words.size(graph.bytes)}, at least "
        f"{words.duration(graph.seconds)} (modelled)"
    )


def neighbours(pair: NotFused) -> str:
    """The names of two steps, and how often they are neighbours."""
    return f"{pair.first} → {pair.second}" + (f" ({pair.count} times)" if pair.count > 1 else "")


def _row(step: ExplainedStep, total: float) -> list[str]:
    return [
        f"{step.seconds / total:.1%}" if total else "0.0%",
        words.duration(step.seconds),
        step.limit,
        words.size(step.bytes),
        words.amount(round(step.flops)) if step.flops else "",
        step.kind,
        step.name,
        step.layer,
    ]


def page(found: ModelExplanation) -> str:
    """One HTML page with a bar per step."""
    most = max((s.seconds for g in found.graphs for s in g.steps), default=0.0) or 1.0
    return render(
        "explanation",
        title=found.model,
        verb="explain",
        model=found.model,
        gpu=found.gpu,
        seconds=words.duration(found.seconds),
        meaning=MEANING,
        left=found.left,
        graphs=[
            {
                "kind": graph.kind,
                "summary": summary(graph),
                "steps": [_bar(step, found.seconds, most) for step in graph.steps],
                "apart": [{"pair": neighbours(p), "why": p.why} for p in graph.apart],
            }
            for graph in found.graphs
        ],
    )


def _bar(step: ExplainedStep, total: float, most: float) -> dict[str, Any]:
    share, time, *_ = _row(step, total)
    width, moved = 100 * step.seconds / most, words.size(step.bytes)
    return {**vars(step), "share": share, "time": time, "width": width, "moved": moved}
