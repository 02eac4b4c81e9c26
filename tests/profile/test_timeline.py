"""Timelines: the schedule of activities, what follows from it, and the forms that show it."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from weft.device import models
from weft.measure.timeline import duration, schedule
from weft.measure.timeline.analysis import analysed
from weft.report.timeline import text
from weft.report.timeline.page import page
from weft.report.timeline.trace import trace
from weft.values.time import timeline as t
from weft.values.time.timeline import Activity, Timeline, TimelineEvent

GPU = models.get("h200")
KERNEL = 100e-6
MIB = 1 << 20
A, B, C = [(0x1000, 64)], [(0x2000, 64)], [(0x3000, 64)]


def call(name: str, *inside: Activity, thread: int = 1) -> list[Activity]:
    return [
        Activity(t.CALL, thread, name),
        *(one._replace(thread=thread) for one in inside),
        Activity(t.RETURN, thread, name),
    ]


def kernel(stream: int = 0, memory: Any = A, blocks: int = 1000, name: str = "k") -> list[Activity]:
    facts = {"grid": [blocks, 1, 1], "memory": memory}
    return call("cudaLaunchKernel", Activity(t.KERNEL, 1, name, stream, 0, facts))


def copy(
    direction: str = t.TO_DEVICE, stream: int = 0, memory: Any = A, *, pageable: bool = False,
    waits: bool = False, nbytes: int = 4 * MIB,
) -> list[Activity]:  # fmt: skip
    facts = {"bytes": nbytes, "pageable": pageable, "memory": memory}
    one = Activity(t.COPY, 1, direction, stream, 0, facts)
    wait = [Activity(t.HOST_WAITS_STREAM, 1, "", stream)] * waits
    return call("cudaMemcpy" if waits else "cudaMemcpyAsync", one, *wait)


def created(stream: int, flags: int = 1) -> list[Activity]:
    return call("cudaStreamCreate", Activity(t.CREATED, 1, "", stream, flags))


def made(*activities: list[Activity]) -> Timeline:
    rows = [one for part in activities for one in part]
    return analysed("p.cu", GPU.name, "modelled", schedule.events(rows, GPU, lambda one: KERNEL))


def work(value: Timeline) -> list[TimelineEvent]:
    return [e for e in value.events if e.kind in t.WORK]


STREAMS = [*created(10), *created(20)]
ORDERS: dict[str, tuple[list[list[Activity]], bool]] = {
    "one stream": ([kernel(10), kernel(10)], False),
    "two streams, all SMs": ([kernel(10), kernel(20)], False),
    "two streams, few SMs": ([kernel(10, blocks=40), kernel(20, blocks=40)], True),
    "a copy beside a kernel": ([kernel(10), copy(stream=20)], True),
    "copies in one direction": ([copy(stream=10), copy(stream=20)], False),
    "copies in both directions": ([copy(stream=10), copy(t.TO_HOST, 20)], True),
    "an event": (
        [kernel(10, blocks=1), call("r", Activity(t.RECORDED, 1, "", 10, 7)),
         call("w", Activity(t.WAITS, 1, "", 20, 7)), kernel(20, blocks=1)],
        False,
    ),
    "an event of nothing": (
        [call("r", Activity(t.RECORDED, 1, "", 10, 7)), kernel(10, blocks=1),
         call("w", Activity(t.WAITS, 1, "", 20, 7)), kernel(20, blocks=1)],
        True,
    ),
    "the default stream does not wait for such streams": (
        [kernel(10, blocks=1), kernel(0, blocks=1)], True
    ),
    "it waits for blocking ones": (
        [created(30, 0), kernel(30, blocks=1), kernel(0, blocks=1)], False
    ),
    "the host waits": (
        [kernel(10, blocks=1), call("cudaDeviceSynchronize", Activity(t.HOST_WAITS_ALL)),
         kernel(20, blocks=1)],
        False,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("parts", "together"), ORDERS.values(), ids=ORDERS.keys())
def test_what_runs_at_the_same_time(parts: list[list[Activity]], together: bool) -> None:
    value = made(STREAMS, *parts)
    first, last = work(value)
    assert (last.start < first.end - 1e-12) is together
    assert (value.overlap > 0) is together
    if not together:
        assert last.start >= first.end - 1e-12


def test_nodes_of_a_graph_begin_after_those_that_they_wait_for() -> None:
    def node(index: int, *after: int) -> list[Activity]:
        facts = {"grid": [20, 1, 1], "memory": A}
        return [
            Activity(t.NODE, 1, "", 0, index, {"after": list(after)}),
            Activity(t.KERNEL, 1, f"n{index}", 10, 0, facts),
        ]

    inside = [*node(0), *node(1, 0), *node(2, 0), *node(3, 1, 2)]
    graph = [Activity(t.GRAPH, 1, "graph", 10), *inside, Activity(t.GRAPH_ENDS, 1, "graph", 10)]
    value = made(created(10), call("cudaGraphLaunch", *graph), kernel(10))
    first, left, right, last, after = work(value)
    assert left.start == right.start == pytest.approx(first.end)
    assert left.lane != right.lane and right.lane == "stream 1, branch 2"
    assert last.start == pytest.approx(left.end) and after.start == pytest.approx(last.end)
    (whole,) = [e for e in value.events if e.kind == t.GRAPH]
    assert whole.seconds == pytest.approx(3 * KERNEL) and whole.facts["graph"] == 1


def test_the_host_waits_for_pageable_copies_and_goes_on_after_others() -> None:
    for pageable in (True, False):
        value = made(copy(pageable=pageable), call("next"))
        first, last = (e for e in value.events if e.kind == t.CALL)
        (moved,) = work(value)
        assert moved.seconds == pytest.approx(4 * MIB / (63e9 * (0.5 if pageable else 1)))
        assert (last.start >= moved.end) is pageable
        assert first.until == (1 if pageable else -1)


def test_the_critical_path_and_the_gaps() -> None:
    value = made(
        kernel(name="first"), call("cudaDeviceSynchronize", Activity(t.HOST_WAITS_ALL)),
        call("cudaMalloc"), kernel(name="second"), copy(t.TO_HOST, waits=True),
    )  # fmt: skip
    names = [value.events[i].name for i in value.path]
    assert names == ["cudaLaunchKernel", "first", "cudaDeviceSynchronize", "cudaMalloc",
                     "cudaLaunchKernel", "second", "DtoH", "cudaMemcpy"]  # fmt: skip
    assert sum(seconds for _, seconds in value.critical) == pytest.approx(value.seconds)
    assert dict(value.critical)["first"] == pytest.approx(KERNEL)
    (gap,) = value.gaps
    assert gap.why == "the host, which called cudaLaunchKernel"
    assert gap.seconds == pytest.approx(2 * duration.CALL + duration.LATENCY)
    assert value.busy == pytest.approx(value.seconds - gap.seconds - value.events[1].start)


HINTS: dict[str, tuple[list[list[Activity]], str]] = {
    "pageable memory": ([kernel(0, A), copy(memory=B, pageable=True, waits=True)], "pageable"),
    "before the kernel": ([copy(memory=B, pageable=True, waits=True), kernel(0, A)], "pageable"),
    "one stream": ([kernel(10, A), copy(stream=10, memory=B)], "same stream"),
    "to the host, one stream": ([kernel(10, A), copy(t.TO_HOST, 10, B)], "same stream"),
    "the default stream": (
        [created(30, 0), kernel(30, A), copy(stream=0, memory=B)], "default stream"
    ),
    "the kernel's own memory": ([kernel(0, A), copy(memory=A, pageable=True)], ""),
    "a part of its memory": ([kernel(0, A), copy(memory=[(0x1020, 8)], pageable=True)], ""),
    "unknown memory": ([kernel(0, []), copy(memory=B, pageable=True)], ""),
    "by way of another kernel": (
        [kernel(10, A), copy(t.ON_DEVICE, 10, A + B), copy(t.TO_HOST, 10, B)], ""
    ),
    "the host knows the result": (
        [kernel(0, A), call("cudaDeviceSynchronize", Activity(t.HOST_WAITS_ALL)),
         copy(memory=B, pageable=True)],
        "",
    ),
    "the host has read what it copied": ([copy(t.TO_HOST, 0, B, waits=True), kernel(0, A)], ""),
    "it overlaps": ([kernel(10, A), copy(stream=20, memory=B)], ""),
    "a copy on the device": ([kernel(10, A), copy(t.ON_DEVICE, 10, B)], ""),
    "nothing to gain": ([kernel(10, A), copy(stream=10, memory=B, nbytes=64)], ""),
}  # fmt: skip


@pytest.mark.parametrize(("parts", "why"), HINTS.values(), ids=HINTS.keys())
def test_copies_that_could_overlap_with_kernels(parts: list[list[Activity]], why: str) -> None:
    value = made(STREAMS, *parts)
    assert [why in hint.why for hint in value.hints] == [True] * bool(why)
    shown = "\n".join(block[0] for block in text.view(value) if isinstance(block[0], str))
    assert ("copies could overlap with kernels here" in shown) is bool(why)
    assert ("Copies could overlap" in page(value)) is bool(why)


def test_statistics_are_those_of_nsys() -> None:
    value = made(kernel(name="a"), kernel(name="b"), kernel(name="a"), copy(), copy(nbytes=MIB))
    rows = value.statistics["kernels"]
    assert [(row.name, row.calls) for row in rows] == [("a", 2), ("b", 1)]
    assert rows[0].total == pytest.approx(2 * KERNEL) and rows[0].mean == pytest.approx(KERNEL)
    (copies,) = value.statistics["copies"]
    assert copies.nbytes == 5 * MIB and copies.least < copies.most
    data = json.loads(json.dumps(value.to_dict()))
    assert data["clock"] == "modelled" and data["statistics"]["copies"][0]["nbytes"] == 5 * MIB


def valid(data: dict[str, Any]) -> list[dict[str, Any]]:
    """Check a trace against the Trace Event format; return its bars."""
    data = json.loads(json.dumps(data))
    assert isinstance(data["traceEvents"], list) and data["displayTimeUnit"] in ("ms", "ns")
    rows: dict[tuple[int, int], list[dict[str, Any]]] = {}
    flows: dict[int, list[dict[str, Any]]] = {}
    named = set()
    for event in data["traceEvents"]:
        assert event["ph"] in "MXisfC" and isinstance(event["pid"], int) and event["name"]
        if event["ph"] == "M":
            named.add((event["pid"], event["tid"]) if event["name"] == "thread_name" else None)
            continue
        assert event["ts"] >= 0
        if event["ph"] == "X":
            assert event["dur"] >= 0
            rows.setdefault((event["pid"], event["tid"]), []).append(event)
        elif event["ph"] in "sf":
            flows.setdefault(event["id"], []).append(event)
    assert {row for row in rows if row[0] < 3} <= named, "each row has a name"
    for bars in rows.values():
        bars.sort(key=lambda e: (e["ts"], -e["dur"]))
        for one, other in itertools.pairwise(bars):  # in a row, bars follow or hold each other
            end = one["ts"] + one["dur"]
            assert other["ts"] >= end - 1e-6 or other["ts"] + other["dur"] <= end + 1e-6
    for begin, end in flows.values():
        assert (begin["ph"], end["ph"], end["bp"]) == ("s", "f", "e") and begin["ts"] <= end["ts"]
        assert begin["cat"] == end["cat"] and begin["name"] == end["name"]
    return [bar for bars in rows.values() for bar in bars]


def test_the_trace_is_one_that_perfetto_opens() -> None:
    ranges = [Activity(t.PUSH, 1, "outer"), Activity(t.PUSH, 1, "inner"), *copy(),
              Activity(t.POP, 1), Activity(t.MARK, 1, "now"), Activity(t.POP, 1)]  # fmt: skip
    started = [Activity(t.START, 1, "open", 0, 5), *kernel(20), Activity(t.END, 2, "", 0, 5)]
    event = [
        call("r", Activity(t.RECORDED, 1, "", 0, 7)),
        call("w", Activity(t.WAITS, 1, "", 20, 7)),
    ]
    data = trace(made(STREAMS, ranges, *event, started))
    bars = valid(data)
    assert {"outer", "inner", "open", "k", "HtoD", "cudaLaunchKernel"} <= {b["name"] for b in bars}
    flows = [e["cat"] for e in data["traceEvents"] if e["ph"] == "s"]
    assert flows.count("launch") == 2 and "dependency" in flows
    assert any(bar["args"].get("on the critical path") for bar in bars if "args" in bar)
    assert data["otherData"]["clock"] == "modelled"


def test_a_page_of_many_events_is_small(tmp_path: Path) -> None:
    many = [*created(10), *created(20)]
    for i in range(20_000):
        many += [*copy(stream=10 + 10 * (i % 2), nbytes=4096), *kernel(20 - 10 * (i % 2))]
    value = made(many)
    html = page(value)
    assert len(value.events) > 80_000 and len(html) < 8e6
    assert not re.search(r"(?:src|href)\s*=|url\(|@import|https?://", html)
    (found,) = re.findall(r'<script id="data" type="application/json">(.*?)</script>', html)
    data = json.loads(found)
    columns = [data[name] for name in ("lane", "kind", "start", "dur", "name", "facts", "after")]
    assert {len(column) for column in columns} == {len(value.events)}
    assert len(data["said"]) < 10 and len(data["names"]) < 10
