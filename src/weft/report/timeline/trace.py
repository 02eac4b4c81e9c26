"""Writes a timeline in the Trace Event format, which Perfetto and chrome://tracing open."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weft.values.time import timeline
from weft.values.time.timeline import Timeline, TimelineEvent

_HOST, _GPU, _FINDINGS = 1, 2, 3
"""The processes of a trace: rows of the host, of the GPU, and what weft found."""
_ON_HOST = (timeline.CALL, "range", timeline.MARK, "module")
_MEMORY = "memory of tensors"
"""The fact of operations of PyTorch that becomes a counter."""


def trace(value: Timeline) -> dict[str, Any]:
    """The trace: bars by lane, arrows from calls to their work and between streams, the path."""
    lanes = Lanes(value)
    events = [*lanes.names(), *_bars(value, lanes), *_arrows(value, lanes), *_found(value)]
    return {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {"clock": value.clock, "gpu": value.gpu, "program": value.program},
    }


class Lanes:
    """The process and the number of each lane, in the order in which they are drawn."""

    def __init__(self, value: Timeline) -> None:
        self._gpu = f"{value.gpu}, {value.clock} time"
        on_host = {e.lane: e.kind in _ON_HOST for e in value.events}
        order = sorted(on_host, key=lambda lane: (not on_host[lane], _sort_key(lane)))
        self.place = {
            lane: (_HOST if on_host[lane] else _GPU, n) for n, lane in enumerate(order, 1)
        }

    def names(self) -> Iterator[dict[str, Any]]:
        for pid, name in ((_HOST, "host"), (_GPU, self._gpu), (_FINDINGS, "findings")):
            yield {"ph": "M", "pid": pid, "tid": 0, "name": "process_name", "args": {"name": name}}
            yield {"ph": "M", "pid": pid, "tid": 0, "name": "process_sort_index",
                   "args": {"sort_index": pid}}  # fmt: skip
        for lane, (pid, tid) in self.place.items():
            yield {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": lane}}
            yield {"ph": "M", "pid": pid, "tid": tid, "name": "thread_sort_index",
                   "args": {"sort_index": tid}}  # fmt: skip

    def at(self, event: TimelineEvent) -> dict[str, int]:
        pid, tid = self.place[event.lane]
        return {"pid": pid, "tid": tid}


def _sort_key(lane: str) -> tuple[int, str]:
    """Ranges, then threads and modules, then streams by number."""
    first = ("NVTX", "modules", "operations", "thread", "default", "graphs", "stream")
    kind = next((n for n, word in enumerate(first) if lane.startswith(word)), len(first))
    return kind, "".join(f"{word:>12}" if word.isdigit() else word for word in lane.split())


def _bars(value: Timeline, lanes: Lanes) -> Iterator[dict[str, Any]]:
    critical = set(value.path)
    for number, event in enumerate(value.events):
        common = {"name": event.name, "cat": event.kind, "ts": event.start * 1e6, **lanes.at(event)}
        if event.kind == timeline.MARK:
            yield {**common, "ph": "i", "s": "t"}
            continue
        args = {k: v for k, v in event.facts.items() if v and k not in ("memory", _MEMORY)}
        args |= {"on the critical path": True} if number in critical else {}
        yield {**common, "ph": "X", "dur": event.seconds * 1e6, "args": args}
        if _MEMORY in event.facts:
            yield {"ph": "C", "pid": _HOST, "name": _MEMORY, "ts": event.start * 1e6,
                   "args": {"bytes": event.facts[_MEMORY]}}  # fmt: skip


def _arrows(value: Timeline, lanes: Lanes) -> Iterator[dict[str, Any]]:
    """From a call to its work, and from work to that of another stream which waited for it."""
    events, number = value.events, 0
    for event in events:
        sources = [(event.launch, "launch")]
        before = events[event.after] if event.after >= 0 else None
        if before is not None and before.kind != timeline.CALL and before.lane != event.lane:
            sources.append((event.after, "dependency"))
        if event.until >= 0:
            sources.append((event.until, "wait"))
        for source, kind in sources:
            if source < 0 or event.kind == timeline.GRAPH:
                continue
            number += 1
            origin = events[source]
            leaves = origin.start if kind == "launch" else origin.end
            arrives = event.end if kind == "wait" else event.start
            common = {"id": number, "name": kind, "cat": kind}
            yield {**common, "ph": "s", "ts": leaves * 1e6, **lanes.at(origin)}
            yield {**common, "ph": "f", "bp": "e", "ts": arrives * 1e6, **lanes.at(event)}


def _found(value: Timeline) -> Iterator[dict[str, Any]]:
    """Idle times, and copies that could overlap with kernels."""
    for gap in value.gaps:
        yield {"ph": "X", "pid": _FINDINGS, "tid": 1, "name": "idle", "cat": "gap",
               "ts": gap.start * 1e6, "dur": gap.seconds * 1e6,
               "args": {"waits for": gap.why}}  # fmt: skip
    for hint in value.hints:
        copy = value.events[hint.copy]
        yield {"ph": "X", "pid": _FINDINGS, "tid": 2, "name": "could overlap", "cat": "hint",
               "ts": copy.start * 1e6, "dur": copy.seconds * 1e6,
               "args": {"with": value.events[hint.kernel].name, "why": hint.why}}  # fmt: skip
