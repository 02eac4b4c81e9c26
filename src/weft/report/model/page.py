"""Renders a step of a PyTorch script as one HTML page: a bar per layer, memory, advice."""

from __future__ import annotations

from typing import Any

from weft.report import words
from weft.report.model import layers
from weft.report.page import render
from weft.values.layers import KernelUse, Layer, PeakMemory, StepProfile

OWNERS = 12
"""The number of layers whose memory is listed."""


def page(step: StepProfile) -> str:
    """The whole page."""
    modelled = step.measured or step.floor < step.time
    most = max((layer.time for layer in step.layers), default=0.0) or 1.0
    return render(
        "model",
        title=step.script,
        verb="profile",
        script=step.script,
        headline=f"{layers.headline(step)} on {step.gpu}",
        how=layers.times(step),
        tiles=_tiles(step, modelled),
        advice=[
            {**vars(a), "gain": layers.gain(a.gain, a.saves, step.time).strip(" ()")}
            for a in step.advice
        ],
        phases=list(dict.fromkeys(p.phase for layer in step.layers for p in layer.phases)),
        modelled=modelled,
        unit="times by CUPTI" if step.measured else "modelled times",
        layers=[_layer(layer, step, most) for layer in step.layers],
        memory=_memory(step.memory),
        footer=_footer(step),
    )


def _tiles(step: StepProfile, modelled: bool) -> list[tuple[str, str]]:
    time = "time of kernels" if step.measured else "modelled time"
    return [
        (time, words.duration(step.time)),
        *[("roofline", words.duration(step.floor))] * modelled,
        ("FLOPs", words.amount(round(sum(layer.flops for layer in step.layers)))),
        ("bytes moved", words.size(sum(layer.bytes for layer in step.layers))),
        ("operations and kernels", str(step.launches)),
        ("peak memory", words.size(step.memory.bytes)),
    ]


def _layer(layer: Layer, step: StepProfile, most: float) -> dict[str, Any]:
    return {
        "name": layer.name,
        "kind": layer.kind,
        "count": layer.count,
        "parts": [(p.phase, 100 * p.time / most) for p in layer.phases],
        "least": 100 * min(layer.floor, layer.time) / most,
        "time": words.duration(layer.time),
        "share": layers.part(layer.time, step.time),
        "limit": layer.limit,
        "roofline": layers.part(layer.floor, layer.time),
        "flops": words.amount(round(layer.flops)),
        "bytes": words.size(layer.bytes),
        "parameters": words.size(layer.parameters),
        "held": words.size(layer.held),
        "kernels": [_kernel(use) for use in layer.kernels],
    }


def _kernel(use: KernelUse) -> dict[str, Any]:
    least = layers.part(use.floor, use.time) if use.floor else ""
    return {**vars(use), "time": words.duration(use.time), "least": least}


def _memory(peak: PeakMemory) -> dict[str, Any]:
    whole = peak.bytes or 1
    return {
        "bytes": words.size(peak.bytes),
        "place": peak.place,
        "roles": [
            {"name": role, "bytes": words.size(n), "part": 100 * n / whole}
            for role, n in peak.roles().items()
        ],
        "owners": [{**vars(h), "bytes": words.size(h.bytes)} for h in peak.holdings if h.owner][
            :OWNERS
        ],
    }


def _footer(step: StepProfile) -> str:
    if step.measured:
        return "Times are those of CUPTI. The roofline is the least time of an operation's work."
    return (
        "No GPU was used. The time of an operation of PyTorch is its least time: its bytes at the "
        "rate of DRAM, or its FLOPs at the peak rate of their type. Kernels of weft and Triton "
        "have the time that is modelled by their counters."
    )
