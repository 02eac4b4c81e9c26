"""Predicts the times of parallel layouts: the function of `weft predict-parallel`."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.errors import ArgumentError
from weft.measure.parallel import works
from weft.measure.parallel.layouts.layout import Layout
from weft.measure.parallel.layouts.table import LAYOUTS
from weft.measure.parallel.links import link as link_of
from weft.measure.parallel.quantities import SIZES, quantity
from weft.measure.parallel.simulation.simulate import simulate as simulated
from weft.measure.parallel.worlds import Worlds, worlds
from weft.report.files import write
from weft.report.parallel import page, text
from weft.report.words import plain
from weft.values.time.parallel import Attention, Fabric, Link, ParallelRow, Schedule, Step, rest

MOST_SIMULATED = 32
"""GPUs of a simulation: its tasks grow with the square of their number."""
LEAST_BUCKET = 1_000_000
_LIMITS = {"node": (1, 1024), "micro_batches": (1, 4096), "batch": (0, 2**20), "length": (0, 2**24)}
"""Argument -> its least and its largest number; larger ones only take time."""
_QUOTED = 40
_FREE = Link("free", math.inf, 0.0)


@dataclass(frozen=True)
class ParallelPrediction:
    """The result of `weft.predict_parallel`; `print` shows all rows.

    rows      a `ParallelRow` for each layout and number of GPUs
    sources   the works that are divided, and the origin of their times
    links     the links and their figures
    left_out  layouts and numbers of GPUs of a range that do not fit, with the reason

    >>> found = weft.predict_parallel("gpt2", layouts="data", gpus="2,4", link="450GB/s,2us")
    >>> print([row.gpus for row in found.rows], found.rows[0].idle)
    [2, 4] 0.0
    """

    rows: tuple[ParallelRow, ...]
    sources: tuple[str, ...]
    links: tuple[str, ...]
    left_out: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The prediction as JSON-compatible values."""
        head = {"sources": [*self.sources], "links": [*self.links]}
        rows = [dict(row.to_dict()) for row in self.rows]
        return {**head, "rows": rows, "left_out": [*self.left_out]}

    def html(self) -> str:
        """A page with charts."""
        return page.page(self.rows, self.sources, self.links, self.left_out)

    def save(self, path: str | Path) -> None:
        """Write the page with charts."""
        write(Path(path), self.html())

    def __str__(self) -> str:
        return plain(text.view(self.rows, self.sources, self.links, self.left_out))


def predict_parallel(
    model: str = "gpt2",
    *,
    layouts: str | Sequence[str] = "all",
    gpus: int | str | Sequence[int] = "2..1024",
    link: str | Link = "nvlink",
    between: str | Link = "",
    node: int = 8,
    time: float | str | Path | None = None,
    attention_time: float | str | Path | None = None,
    batch: int = 0,
    length: int = 0,
    dtype: str = "bf16",
    causal: bool | None = None,
    micro_batches: int = 8,
    bucket: float | str = "25MB",
    simulate: bool = False,
) -> ParallelPrediction:
    """Predict the time of a model on several GPUs, from its time on one and from the links.

    model           a network: "gpt2-124m", "llama-1b", …
    layouts         ring, striped, zigzag, ulysses (attention, forward), tensor, tensor-sequence,
                    data, fsdp, gpipe, 1f1b (a training step), or "all"
    gpus            8, "2,4,6", or "2..1024" for the powers of two
    link            nvlink, pcie5, network, or a bandwidth and a latency: "450GB/s,2us"
    between         the link between nodes; all GPUs share `link` without it
    node            GPUs of a node
    time            a step's time on one GPU: seconds, "12ms", or a file of `weft predict --json`
    attention_time  the same for one forward call of attention
    batch, length   texts and their tokens; 0: as recorded
    dtype           of the training step: "bf16" or "autocast"
    causal          whether attention is causal; None: as the model is
    micro_batches   of a pipeline; each is a recorded batch
    bucket          bytes of gradients that are added at a time
    simulate        also simulate the schedules, on up to 32 GPUs

    >>> found = weft.predict_parallel("llama-1b", layouts="striped", gpus=8, length=131072)
    >>> print(found.rows[0].efficiency > 0.99)
    True
    """
    names = _names(layouts)
    world = worlds(gpus)
    _whole(node=node, micro_batches=micro_batches, batch=batch, length=length)
    inside = link_of(link, "link")
    several = not (isinstance(between, str) and between == "")
    outside = link_of(between, "between") if several else inside
    _one_of("dtype", dtype, works.GRADIENT)
    schedule = Schedule(micro_batches, _bucket(bucket))
    network = works.model(model)
    kinds = {LAYOUTS[name].kind for name in names}
    found: dict[type, Any] = {}
    if Attention in kinds:
        found[Attention] = works.attention(network, causal, batch, length, attention_time)
    if Step in kinds:
        found[Step] = works.step(network, dtype, batch, length, time)
    rows, left_out = [], []
    for name in names:
        layout, work = LAYOUTS[name], found[LAYOUTS[name].kind]
        fitting, reasons = _fitting(name, layout, work, world, node if several else 0)
        left_out += reasons
        for n in fitting:
            fabric = Fabric(n, inside, outside, node if several else n)
            rows.append(_row(name, work, fabric, schedule, simulate))
    shown = [_described(inside, f"in nodes of {node}" if several else "all GPUs")]
    shown += [_described(outside, "between nodes")] if several else []
    sources = tuple(work.source for work in found.values())
    return ParallelPrediction(tuple(rows), sources, tuple(shown), tuple(left_out))


def _row(name: str, work: Any, fabric: Fabric, schedule: Schedule, simulate: bool) -> ParallelRow:
    """The times of a layout, with its links and with links that take no time."""
    layout = LAYOUTS[name]
    timed = layout.timed(work, fabric, schedule)
    free = layout.timed(work, Fabric(fabric.gpus, _FREE, _FREE, fabric.node), schedule).seconds
    run = simulate and fabric.gpus <= MOST_SIMULATED
    return ParallelRow(
        name,
        fabric.gpus,
        layout.work(fabric.gpus, schedule),
        timed.seconds,
        timed.compute,
        timed.communication,
        rest(timed.seconds, free),
        rest(free, timed.compute),
        work.seconds,
        simulated(name, work, fabric, schedule).seconds if run else None,
    )


def _fitting(
    name: str, layout: Layout[Any], work: Any, world: Worlds, node: int
) -> tuple[list[int], list[str]]:
    """The numbers of GPUs that a layout can use, and the reasons of those of a range it cannot."""
    fitting: list[int] = []
    refused: dict[str, list[int]] = {}
    for n in world.sizes:
        reason = layout.refusal(work, n)
        if node and n > node and n % node:
            reason = f"nodes of {node} do not divide the GPUs"
        if not reason:
            fitting.append(n)
            continue
        refused.setdefault(reason, []).append(n)
        if not world.ranged:
            raise ArgumentError(
                f"{name} does not fit {n:,} GPUs",
                got=reason,
                next="a range such as 2..1024 leaves out what does not fit",
            )
    reasons = [
        f"{name} on {', '.join(f'{n:,}' for n in sizes)} GPUs: {reason}"
        for reason, sizes in refused.items()
    ]
    if not fitting:
        raise ArgumentError(f"{name} fits no number of GPUs of the range", got="; ".join(reasons))
    return fitting, reasons


def _names(given: object) -> list[str]:
    """The names of layouts."""
    words: Sequence[object] = [given]
    if isinstance(given, str):
        words = given.split(",")
    elif isinstance(given, Sequence) and given:
        words = given
    names = []
    for word in words:
        name = word.strip() if isinstance(word, str) else word
        _one_of("layouts", name, (*LAYOUTS, "all"))
        names.append(str(name))
    return list(LAYOUTS) if "all" in names else list(dict.fromkeys(names))


def _one_of(what: str, name: object, allowed: Any) -> None:
    """Raise for a name that is not allowed, and suggest the nearest."""
    if isinstance(name, str) and name in allowed:
        return
    near = difflib.get_close_matches(name, allowed, 1) if isinstance(name, str) else []
    raise ArgumentError(
        f"{what} has no such name",
        got=repr(name),
        allowed=", ".join(allowed),
        next=f"did you mean '{near[0]}'?" if near else "",
    )


def _whole(**numbers: object) -> None:
    """Raise for a number that is not whole or not within its limits."""
    for name, value in numbers.items():
        least, most = _LIMITS[name]
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise ArgumentError(
                f"{name} is no whole number that fits",
                got=repr(value)[:_QUOTED],
                allowed=f"{least} to {most:,}",
            )


def _bucket(given: object) -> float:
    """The bytes of a bucket; raise for one so small that a model has millions of them."""
    found = quantity(given, SIZES, "bucket")
    if found < LEAST_BUCKET:
        raise ArgumentError(
            "bucket is too small", got=f"{found:g} bytes", allowed=f"{LEAST_BUCKET:,} bytes or more"
        )
    return found


def _described(link: Link, where: str) -> str:
    rate = f"{link.bandwidth / 1e9:g} GB/s in each direction"
    return f"{link.name} ({where}): {rate}, {link.latency * 1e6:g} µs"
