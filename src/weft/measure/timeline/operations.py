"""Operations of PyTorch in a timeline: their modules and memory, and measured times of a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.measure.timeline.analysis import analysed
from weft.values.model import Call
from weft.values.time import timeline
from weft.values.time.timeline import Timeline, TimelineEvent

_MEMORY = "memory of tensors"


def described(events: Sequence[TimelineEvent], calls: Sequence[Call]) -> list[TimelineEvent]:
    """The events; those of operations with their place, work and memory, and rows of modules."""
    out: list[TimelineEvent] = []
    modules: list[TimelineEvent] = []
    for event in events:
        number = event.facts.get("operation", 0)
        if number:
            call = calls[number - 1]
            event = event._replace(facts={**event.facts, **_facts(call)})
            modules += _module(call, event.start, event.seconds)
        out.append(event)
    return [*out, *modules]


def _facts(call: Call) -> dict[str, object]:
    facts = {**call.place._asdict(), "flops": call.flops, "bytes": call.bytes, "bound": call.limit}
    return {**facts, "phase": call.phase, _MEMORY: call.memory}


def _module(call: Call, start: float, seconds: float) -> Iterator[TimelineEvent]:
    owner = call.place.module or call.place.line
    if owner:
        phase = "backward" if call.place.node else "forward"
        yield TimelineEvent("module", owner, f"modules, {phase}", start, seconds)


def measured(program: str, gpu: str, calls: Sequence[Call]) -> Timeline:
    """The timeline of a PyTorch script whose kernels a GPU ran, by their measured times."""
    first = min((k.start for c in calls for k in c.kernels or ()), default=0.0)
    events: list[TimelineEvent] = []
    ends: dict[int, int] = {}
    for call in calls:
        kernels = call.kernels or ()
        if not kernels:
            continue
        begin = kernels[0].start - first
        seconds = max(k.start + k.seconds for k in kernels) - first - begin
        events.append(
            TimelineEvent(
                timeline.CALL, call.name, "operations", begin, seconds, facts=_facts(call)
            )
        )
        number = len(events) - 1
        for k in kernels:
            kind, name = _kind(k.name)
            events.append(
                TimelineEvent(kind, name, f"stream {k.stream}", k.start - first, k.seconds,
                              ends.get(k.stream, -1), -1, number)
            )  # fmt: skip
            ends[k.stream] = len(events) - 1
        events += _module(call, begin, seconds)
    return analysed(program, gpu, "measured", events)


def _kind(name: str) -> tuple[str, str]:
    """The kind of what CUPTI reports, and the name that weft shows."""
    for direction in (timeline.TO_DEVICE, timeline.TO_HOST, timeline.ON_DEVICE):
        if name.startswith(f"Memcpy {direction}"):
            return timeline.COPY, direction
    return (timeline.FILL, "memset") if name.startswith("Memset") else (timeline.KERNEL, name)
