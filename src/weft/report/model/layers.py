"""Formats a step of a PyTorch script by layers: time, memory, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator

from weft.report import words
from weft.report.words import Block, Table
from weft.values.layers import Layer, StepProfile
from weft.values.model import BACKWARD

ROWS = 20
"""The number of layers shown, those with the most time."""
OWNERS = 6
"""The number of layers whose memory is shown."""


def view(step: StepProfile) -> Iterator[Block]:
    """The layers, the peak of memory with its holders, and advice."""
    yield f"{step.script} on {step.gpu}: {headline(step)}", "bold"
    yield f"{times(step)}; {step.launches} operations and kernels", "dim"
    yield _table(step)
    if len(step.layers) > ROWS:
        rest = sum(layer.time for layer in step.layers[ROWS:])
        yield f"{len(step.layers) - ROWS} more layers with {part(rest, step.time)}", "dim"
    yield from _memory(step)
    yield "Next steps", "bold"
    for number, one in enumerate(step.advice, 1):
        yield f"{number}. {one.rule}{gain(one.gain, one.saves, step.time)}: {one.evidence}", ""
        yield f"   {one.change}", ""


def headline(step: StepProfile) -> str:
    """The step of the script that is shown."""
    kind = "training step" if step.training else "forward pass"
    if step.steps == 1:
        return f"one {kind}"
    alike = (
        f"{step.alike} of {step.steps} steps are alike"
        if step.alike > 1
        else (f"{step.steps} steps, no two alike")
    )
    return f"{kind} {step.shown} ({alike})"


def times(step: StepProfile) -> str:
    """The time and the roofline of a step."""
    least = words.duration(step.floor)
    if step.measured:
        return (
            f"{words.duration(step.time)} of kernels by CUPTI, roofline {least} "
            f"({part(step.floor, step.time)})"
        )
    if step.floor < step.time:
        return (
            f"{words.duration(step.time)} modelled (kernels of weft and Triton by their counters, "
            f"operations of PyTorch at their least time), roofline {least}"
        )
    return f"roofline {least}: modelled, each operation at the rate of DRAM or of its arithmetic"


def gain(seconds: float, saves: int, total: float) -> str:
    """The savings of a change, in parentheses."""
    if seconds > total:  # the host's time is not part of the kernels' time
        return f" (up to {words.duration(seconds)} of the host)"
    if seconds:
        return f" (up to {words.duration(seconds)}, {part(seconds, total)})"
    return f" (up to {words.size(saves)})" if saves else ""


def _table(step: StepProfile) -> Table:
    """One row per layer; columns that are empty for all of them are left out."""
    modelled = step.measured or step.floor < step.time
    rows = [_row(layer, step, modelled) for layer in step.layers[:ROWS]]
    columns = [c for c in rows[0] if any(row[c] for row in rows)]
    return Table(
        columns,
        [[row[c] for c in columns] for row in rows],
        [c for c in columns if c not in ("bound", "layer", "class", "first kernel")],
    )


def _row(layer: Layer, step: StepProfile, modelled: bool) -> dict[str, str]:
    back = layer.in_phase(BACKWARD)
    times_of = f" x{layer.count}" if layer.count > 1 else ""
    return {
        "share": part(layer.time, step.time),
        "time": words.duration(layer.time),
        "roofline": part(layer.floor, layer.time) if modelled else "",
        "backward": part(back, layer.time) if back else "",
        "bound": layer.limit,
        "FLOPs": words.amount(round(layer.flops)),
        "bytes": words.size(layer.bytes),
        "held": words.size(layer.held) if layer.held else "",
        "calls": str(layer.calls),
        "layer": f"{layer.name}{times_of}",
        "class": layer.kind,
        "first kernel": words.kernel(layer.kernels[0].name) if layer.kernels else "",
    }


def _memory(step: StepProfile) -> Iterator[Block]:
    peak = step.memory
    where = f", reached in {peak.place}" if peak.place else ""
    yield f"Peak memory {words.size(peak.bytes)}{where}", "bold"
    roles = [[part(n, peak.bytes), words.size(n), role] for role, n in peak.roles().items()]
    owners = [h for h in peak.holdings if h.owner][:OWNERS]
    roles += [
        [part(h.bytes, peak.bytes), words.size(h.bytes), f"  {h.owner}: {h.role}"] for h in owners
    ]
    yield Table(["share", "bytes", "held by"], roles, ["share", "bytes"])


def part(some: float, total: float) -> str:
    """A part of a total in percent."""
    return f"{some / total:.1%}" if total else "0.0%"
