"""A profile as JSON for the page: facts of each line, PTX, roofline, occupancy, advice, traces."""

from __future__ import annotations

from bisect import bisect
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from weft.device.sim.tools.counters.layout import LANES
from weft.device.sim.tools.counters.rules import depth, shared_cost
from weft.lab import times
from weft.lab.job import own
from weft.report import charts, facts, stages, words
from weft.report.text import predicted
from weft.values.analysis import AnalysedProfile
from weft.values.profile import AccessSample, Instruction, Line

_SECTOR, _LINE = 32, 128
STALLS = ["time", "predicted part of the warps' time, and its largest stall reason"]


def view(p: AnalysedProfile) -> dict[str, Any]:
    """Everything that the page shows of one launch, without its traces."""
    s, stalls = p.launch, times.of_line(p.predicted)
    return {
        **facts.head(p),
        "blocks": s.blocks,
        "recorded": p.samples[0].block if p.samples else 0,
        "warps": -(-s.threads // 32),
        "threads": s.threads,
        "registers": s.registers,
        "shared": s.static_shared + s.dynamic_shared,
        "lines": [_line(p, line, stalls) for line in p.lines if own(line.file)],
        "columns": [*([c.head, c.title] for c in facts.columns(p)), STALLS],
        "predicted": predicted(p),
        "ptx": _ptx(p),
        "advice": [
            {"rule": a.rule, "evidence": a.evidence, "change": a.change,
             "gain": a.limit, "line": a.line if own(a.file) else 0}
            for a in p.advice
        ],
        "sections": [
            {"name": sec.name, "rows": [[m.label, words.value(m)] for m in sec.metrics]}
            for sec in p.sections
        ],
        "stages": _stages(p),
        "roofline": charts.roofline(p.roofline, p.measured),
        "curves": [charts.occupancy(c, p.model.max_warps_per_sm) for c in p.curves],
    }  # fmt: skip


def _stages(p: AnalysedProfile) -> dict[str, Any] | None:
    """The life of the block's stages: a sentence, a chart, and the kinds of its bars."""
    if p.stages is None:
        return None
    says, chart = stages.says(p.stages), stages.chart(p)
    return {"block": p.stages.block, "says": says, "chart": chart, "legend": stages.LEGEND}


def _line(p: AnalysedProfile, line: Line, stalls: Mapping[int, str]) -> dict[str, Any]:
    return {
        "line": line.number,
        "executions": line.executions,
        "lanes": words.lanes(line),
        **_sectors(line),
        "wavefronts": words.wavefronts(line),
        "conflicts": sum(a.conflicts for a in line.accesses),
        "branches": line.branches,
        "diverged": line.diverged,
        **facts.marks(line),
        "more": [*(c.text(line) for c in facts.columns(p)), stalls.get(line.number, "")],
        "heat": facts.heat(p, line, 4),
    }


def _sectors(line: Line) -> dict[str, str]:
    """Sectors per request in global memory, and the worst kind of access where there are several.

    The rules of exercises are about loads or stores, so these are not mixed.
    """
    kinds = {
        a.kind: a.sectors / a.requests for a in line.accesses if a.space == "global" and a.requests
    }
    if len(set(kinds.values())) < 2:
        return {"sectors": words.sectors(line), "worst": words.sectors(line)}
    each = ", ".join(f"{kind} {ratio:.3g}" for kind, ratio in kinds.items())
    return {"sectors": each, "worst": f"{max(kinds.values()):.3g}"}


def _source(ins: Instruction) -> int:
    own_line = ins.line.own if ins.line is not None else None
    return own_line.line if own_line is not None and own(own_line.file) else 0


def _ptx(p: AnalysedProfile) -> list[list[Any]]:
    """[PTX line, text, source line, executions]; labels have no executions."""
    by_line = {i.ptx_line: i for i in p.instructions}
    out: list[list[Any]] = []
    for number, text in p.ptx:
        ins = by_line.get(number)
        shown = " ".join(text.split())
        out.append([number, shown, _source(ins), ins.executions] if ins else [number, shown, 0, -1])
    return out


# ---- traces --------------------------------------------------------------------------------------
def traces(p: AnalysedProfile) -> dict[str, Any]:
    """Source line -> warp -> what it did there: accesses, or else which lanes were active."""
    by_index = {i.index: i for i in p.instructions}
    groups: dict[tuple[int, str, int], list[AccessSample]] = defaultdict(list)
    accesses: dict[tuple[int, int], dict[tuple[Any, ...], list[AccessSample]]] = defaultdict(dict)
    for s in p.samples:
        groups[s.instruction, s.kind, s.warp].append(s)
        if s.kind != LANES:
            line = _source(by_index[s.instruction])
            alike = (s.kind, s.nbytes, s.place == "shared")
            accesses[line, s.warp].setdefault(alike, []).append(s)
    lines: dict[int, dict[int, list[dict[str, Any]]]] = defaultdict(dict)
    for (line, warp), kinds in accesses.items():
        lines[line][warp] = [_access(by_index, samples) for samples in kinds.values()]
    for line, warp, samples in _lanes(p, groups):
        if warp not in lines[line]:
            lines[line][warp] = [_active(samples)]
    return {
        str(line): {str(w): steps for w, steps in warps.items()} for line, warps in lines.items()
    }


def _access(by_index: Mapping[int, Instruction], samples: Sequence[AccessSample]) -> dict[str, Any]:
    """Accesses of one kind in a line. The compiler may have unrolled a loop: then each turn is an
    instruction of its own, and the turns are the first executions of all of them, and so on."""
    first = samples[0]
    times = {s.instruction: s.executions for s in samples}
    ordered = sorted(samples, key=lambda s: (s.execution, s.instruction))
    return {
        "text": f"{first.kind} of {first.nbytes} bytes, {first.place or 'memory'}",
        "space": "shared" if first.place == "shared" else "global",
        "nbytes": first.nbytes,
        "executions": sum(times.values()),
        "steps": [
            {"offsets": list(s.offsets), "place": s.place or "memory",
             "ptx": by_index[s.instruction].ptx_line, **_cost(s)}
            for s in ordered
        ],
    }  # fmt: skip


def _cost(s: AccessSample) -> dict[str, int]:
    """The cost of one execution: wavefronts of shared memory, or sectors and lines."""
    offsets = [x for x in s.offsets if x is not None]
    if s.place != "shared":
        units = {
            size: {b // size for x in offsets for b in (x, x + s.nbytes - 1)}
            for size in (_SECTOR, _LINE)
        }
        return {"sectors": len(units[_SECTOR]), "lines": len(units[_LINE])}
    if s.kind.startswith("matrix"):  # eight rows of 16 bytes make a part
        parts = [[x for x in s.offsets[i : i + 8] if x is not None] for i in range(0, 32, 8)]
        depths = [depth(part, 16) for part in parts if part]
        return {"wavefronts": sum(depths), "ideal": len(depths)}
    cost = shared_cost(s.offsets, s.nbytes, reads="store" not in s.kind)
    return {"wavefronts": cost.wavefronts, "ideal": cost.ideal}


def _lanes(
    p: AnalysedProfile, groups: dict[tuple[int, str, int], list[AccessSample]]
) -> Iterator[tuple[int, int, list[AccessSample]]]:
    """(line, warp, samples) of the first basic block that each line has code in."""
    blocks: dict[int, dict[int, list[AccessSample]]] = defaultdict(dict)
    for (index, kind, warp), samples in groups.items():
        if kind == LANES:
            blocks[index][warp] = samples
    starts, seen = sorted(blocks), {0}
    for ins in sorted(p.instructions, key=lambda i: i.index):
        line, at = _source(ins), bisect(starts, ins.index)
        if line not in seen and at:
            seen.add(line)
            yield from ((line, warp, samples) for warp, samples in blocks[starts[at - 1]].items())


def _active(samples: Sequence[AccessSample]) -> dict[str, Any]:
    return {
        "text": "active lanes",
        "space": "lanes",
        "nbytes": 0,
        "executions": samples[0].executions,
        "steps": [{"offsets": list(s.offsets), "place": ""} for s in samples],
    }
