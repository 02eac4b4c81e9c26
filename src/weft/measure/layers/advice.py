"""Rules that find what would make a step faster or smaller, each with an estimate of its gain.

Gains are modelled: bytes that need not be moved at the rate of DRAM, work at a higher rate,
launches that cost LAUNCH_SECONDS each. They are at most what a change can save.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from weft.device.models import GpuModel
from weft.measure.layers.layers import LayerNames
from weft.measure.layers.memory import ACTIVATIONS
from weft.measure.profile import floor
from weft.report import words
from weft.values.layers import Layer, PeakMemory, StepAdvice
from weft.values.model import BACKWARD, OPTIMIZER, Call, MemoryLog

LAUNCH_SECONDS = 5e-6
"""Seconds that PyTorch takes to launch an operation, about."""
LEAST = 0.02
"""The part of a step that a change must save to be worth a line."""
NEAR = 4
"""Calls between a producer and a consumer that a compiler would put into one kernel."""


@dataclass(frozen=True)
class StepFacts:
    """All that rules may look at."""

    script: str
    gpu: GpuModel
    measured: bool
    calls: Sequence[Call]
    layers: Sequence[Layer]
    names: LayerNames
    log: MemoryLog
    memory: PeakMemory

    @property
    def time(self) -> float:
        return sum(c.time for c in self.calls)

    @property
    def bandwidth(self) -> float:
        """Bytes per second."""
        return self.gpu.memory_gb_per_s * 1e9

    def size(self, numbers: Iterable[int]) -> int:
        """The bytes of allocations."""
        return sum(self.log.allocations[n].bytes for n in numbers if n in self.log.allocations)


Rule = Callable[[StepFacts], "StepAdvice | None"]


def advise(facts: StepFacts) -> tuple[StepAdvice, ...]:
    """The findings of all rules, the largest gain first; memory comes after time."""
    found = [rule(facts) for rule in RULES]
    useful = [a for a in found if a is not None and (a.saves or a.gain >= LEAST * facts.time)]
    return tuple(sorted(useful, key=lambda a: (-a.gain, -a.saves))) or (_nothing(facts),)


def _launches(facts: StepFacts) -> StepAdvice | None:
    launched, total = len(facts.calls) * LAUNCH_SECONDS, facts.time
    if launched < 2 * total:
        return None
    return StepAdvice(
        "launches",
        f"{len(facts.calls)} launches take the host about {words.duration(launched)}, their work "
        f"{words.duration(total)}",
        'one launch for all: torch.compile(model, mode="reduce-overhead"), or a CUDA graph of the '
        "step; larger batches also help",
        launched - total,
    )


def _precision(facts: StepFacts) -> StepAdvice | None:
    rate = floor.ceilings(facts.gpu).get("tensor.bf16")
    if rate is None:
        return None
    found = [c for c in facts.calls if c.library and c.limit in ("fp32", "tensor.tf32") and c.floor]
    gains = {
        id(c): c.time * (1 - max(c.bytes / 2 / facts.bandwidth, c.flops / rate) / c.floor)
        for c in found
    }
    gain = sum(gains.values())
    if gain <= 0:
        return None
    share = sum(c.time for c in found) / facts.time
    top = _most([(facts.names.of(c.place), gains[id(c)]) for c in found])
    return StepAdvice(
        "precision",
        f"products in float32 take {share:.0%} of the step, first {top}",
        'tensor cores: torch.autocast("cuda", dtype=torch.bfloat16), or weights in bfloat16',
        gain,
    )


def _fusion(facts: StepFacts) -> StepAdvice | None:
    """Results that one call writes and a near one reads, and that need not be in memory."""
    readers: dict[int, int] = {}
    for call in facts.calls:
        for number in call.reads:
            readers[number] = readers.get(number, 0) + 1
    found: list[tuple[str, float]] = []
    pairs: dict[str, float] = {}
    for index, call in enumerate(facts.calls):
        # Foreach operations of optimizers have a rule of their own.
        if call.library or call.phase == OPTIMIZER:
            continue
        for before in facts.calls[max(0, index - NEAR) : index]:
            if before.phase != call.phase:
                continue
            shared = set(before.writes) & set(call.reads)
            # The consumer need not read it; if no other call does, it need not be written.
            once = [n for n in shared if readers[n] == 1]
            seconds = (facts.size(shared) + facts.size(once)) / facts.bandwidth
            if seconds:
                found.append((facts.names.of(call.place), seconds))
                pair = f"{_name(before)} + {_name(call)}"
                pairs[pair] = pairs.get(pair, 0.0) + seconds
    gain = min(sum(seconds for _, seconds in found), facts.time)
    if not gain:
        return None
    top = ", ".join(sorted(pairs, key=lambda pair: -pairs[pair])[:3])
    return StepAdvice(
        "fuse",
        f"{len(found)} results are written and read again by the next operation ({top}), "
        f"most in {_most(found)}",
        "one kernel for both: torch.compile(model), weft.fuse, or weft.nn.convert(model)",
        gain,
    )


def _attention(facts: StepFacts) -> StepAdvice | None:
    """Products, a softmax and products again in one module write the matrix of scores."""
    rows: dict[str, list[Call]] = {}
    for call in facts.calls:
        rows.setdefault(facts.names.of(call.place), []).append(call)
    gains: list[tuple[str, float]] = []
    for row, calls in rows.items():
        soft = [c for c in calls if _name(c) in ("_softmax", "softmax")]
        products = [c for c in calls if _name(c) in ("bmm", "baddbmm", "matmul")]
        if soft and len(products) >= 2 * len(soft):
            others = sum(c.time for c in calls if not c.library)
            gains.append((row, others))
    gain = sum(seconds for _, seconds in gains)
    if not gain:
        return None
    return StepAdvice(
        "attention",
        f"the scores of attention go through memory in {_most(gains)}",
        "torch.nn.functional.scaled_dot_product_attention keeps them on chip",
        gain,
    )


def _optimizer(facts: StepFacts) -> StepAdvice | None:
    calls = [c for c in facts.calls if c.phase == OPTIMIZER]
    if len(calls) < 2:
        return None
    moved = sum(c.bytes for c in calls)
    last = max(c.moment for c in calls)
    own = [c for c in calls if c.moment == last]
    # What lives only inside of the step is a temporary of it.
    lasting = {n for n, a in facts.log.allocations.items() if a.role}
    least = facts.size({n for c in own for n in c.reads} & lasting)
    least += facts.size({n for c in own for n in c.writes} & lasting)
    if not least or least >= moved:
        return None
    return StepAdvice(
        "optimizer",
        f"{len(calls)} launches of the optimizer move {words.size(moved)}; "
        f"{words.size(least)} are needed",
        "one launch: fused=True, or weft.optim",
        sum(c.time for c in calls) * (1 - least / moved),
    )


def _casts(facts: StepFacts) -> StepAdvice | None:
    found = [
        c
        for c in facts.calls
        if _name(c) in ("_to_copy", "copy_") and c.phase != OPTIMIZER and not _from_host(c)
    ]
    gain = sum(c.time for c in found)
    if gain < LEAST * facts.time:
        return None
    top = _most([(facts.names.of(c.place), c.time) for c in found])
    return StepAdvice(
        "casts",
        f"{len(found)} copies and casts take {gain / facts.time:.0%} of the step, first {top}",
        "weights in the type that products need, and layouts that match",
        gain,
    )


def _far_from_roofline(facts: StepFacts) -> StepAdvice | None:
    """The kernel that loses most against its roofline: measured, or counted on the simulator."""
    uses = [(k.time - k.floor, layer, k) for layer in facts.layers for k in layer.kernels if k.time]
    known = [u for u in uses if u[2].floor]
    if not known:
        return None
    lost, layer, use = max(known, key=lambda u: u[0])
    part = use.floor / use.time
    if part > 0.7:
        return None
    rate = "the rate of DRAM" if use.limit == "DRAM" else f"the peak of {use.limit}"
    return StepAdvice(
        "kernel",
        f"{words.kernel(use.name)} in {layer.name} ({use.phase}) takes {words.duration(use.time)}, "
        f"{use.time / facts.time:.0%} of the step, at {part:.0%} of its roofline ({rate})",
        _extract(facts, layer),
        lost,
    )


def _activations(facts: StepFacts) -> StepAdvice | None:
    if all(c.phase != BACKWARD for c in facts.calls):
        return None
    held = [h for h in facts.memory.holdings if h.role == ACTIVATIONS]
    total = sum(h.bytes for h in held)
    if not held or total < 0.3 * facts.memory.bytes:
        return None
    top = held[0]
    return StepAdvice(
        "memory",
        f"activations hold {words.size(total)} of the peak of {words.size(facts.memory.bytes)}, "
        f"{top.owner} {words.size(top.bytes)}",
        "torch.utils.checkpoint computes them again in the backward pass; 16-bit types halve them",
        saves=top.bytes,
    )


def _nothing(facts: StepFacts) -> StepAdvice:
    top = facts.layers[0]
    return StepAdvice(
        "kernel",
        f"no rule applies; {top.name} takes {top.time / (facts.time or 1):.0%} of the step",
        _extract(facts, top),
    )


RULES: tuple[Rule, ...] = (
    _launches, _precision, _fusion, _attention, _optimizer, _casts, _far_from_roofline,
    _activations,
)  # fmt: skip


def _most(weights: Iterable[tuple[str, float]]) -> str:
    """The row with the most seconds."""
    sums: dict[str, float] = {}
    for row, seconds in weights:
        sums[row] = sums.get(row, 0.0) + seconds
    return max(sums, key=lambda row: sums[row])


def _extract(facts: StepFacts, layer: Layer) -> str:
    # A shell would expand the star of a row.
    first = facts.names.first(layer.name)
    return f"weft extract {facts.script} {first} writes it as a ladder to climb"


def _name(call: Call) -> str:
    """The name of an operation without its library: `add`."""
    return (call.operation or call.name).partition("::")[2] or call.name


def _from_host(call: Call) -> bool:
    names = [k.name for k in call.kernels or ()]
    return any(name.startswith(("Memcpy HtoD", "Memcpy DtoH")) for name in names)
