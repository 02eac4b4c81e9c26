"""Adds up the calls of a step by layer. Equal modules of a list are one row: `blocks.*.mlp.0`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from weft.values.layers import KernelUse, Layer, PhaseWork
from weft.values.model import BACKWARD, FORWARD, OPTIMIZER, Call, ModuleFacts, Origin

PHASES = (FORWARD, BACKWARD, OPTIMIZER)


class LayerNames:
    """The names of rows by the paths of modules."""

    def __init__(self, modules: Mapping[str, ModuleFacts]) -> None:
        self.modules = modules
        self._numbered: dict[str, set[str]] = {}
        """Parent -> the classes of its numbered parts."""
        for path, facts in modules.items():
            parent, _, last = path.rpartition(".")
            if last.isdigit():
                self._numbered.setdefault(parent, set()).add(facts.kind)
        counts: dict[str, int] = {}
        for path in modules:
            counts[self.row(path)] = counts.get(self.row(path), 0) + 1
        self.counts = counts

    def row(self, path: str) -> str:
        """The path with `*` for the numbers of lists whose parts have one class."""
        words, real = [], ""
        for word in path.split("."):
            equal = word.isdigit() and len(self._numbered.get(real, ())) == 1
            several = equal and f"{real}.{1 - min(int(word), 1)}" in self.modules
            words.append("*" if several else word)
            real = f"{real}.{word}" if real else word
        return ".".join(words)

    def of(self, place: Origin) -> str:
        """The row of a place; a line where it is in no module."""
        module = place.module.rpartition(" > ")[2]  # without NVTX ranges
        return self.row(module) if module else place.line or "elsewhere"

    def first(self, row: str) -> str:
        """The path of a row's first module."""
        return next((path for path in self.modules if self.row(path) == row), row)

    def kind(self, row: str) -> str:
        """The class of a row's modules."""
        return next((f.kind for p, f in self.modules.items() if self.row(p) == row), "")

    def parameters(self, row: str) -> int:
        return sum(f.parameters for p, f in self.modules.items() if self.row(p) == row)


def layers(calls: Sequence[Call], names: LayerNames, held: Mapping[str, int]) -> tuple[Layer, ...]:
    """The layers of a step, the one with the most time first; `held` are bytes by row."""
    members: dict[str, list[Call]] = {}
    for call in calls:
        members.setdefault(names.of(call.place), []).append(call)
    found = [
        Layer(
            name, names.kind(name), names.counts.get(name, 1), tuple(_phases(of)),
            tuple(_kernels(of)), names.parameters(name), held.get(name, 0), _limit(of),
        )
        for name, of in members.items()
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda layer: -layer.time))


def _phases(calls: Sequence[Call]) -> Iterable[PhaseWork]:
    for phase in PHASES:
        of = [c for c in calls if c.phase == phase]
        if of:
            yield PhaseWork(
                phase, len(of), sum(c.flops for c in of), sum(c.bytes for c in of),
                sum(c.time for c in of), sum(c.floor for c in of),
            )  # fmt: skip


def _kernels(calls: Sequence[Call]) -> list[KernelUse]:
    """The kernels of a real GPU, or the calls; the one with the most time first."""
    found: dict[tuple[str, str], list[tuple[float, float, str]]] = {}
    for call in calls:
        # The least time is that of the call: of several kernels, the longest has it.
        longest = max(call.kernels or (), key=lambda k: k.seconds, default=None)
        for kernel in call.kernels or ():
            least = call.floor if kernel is longest else 0.0
            uses = found.setdefault((kernel.name, call.phase), [])
            uses.append((kernel.seconds, least, call.limit))
        if call.kernels is None:
            uses = found.setdefault((call.name, call.phase), [])
            uses.append((call.time, call.floor, call.limit))
    rows = [
        KernelUse(name, phase, len(of), sum(u[0] for u in of), sum(u[1] for u in of),
                  max(of, key=lambda u: u[0])[2])
        for (name, phase), of in found.items()
    ]  # fmt: skip
    return sorted(rows, key=lambda use: -use.time)


def _limit(calls: Sequence[Call]) -> str:
    """The rate that bounds most of the time."""
    times: dict[str, float] = {}
    for call in calls:
        times[call.limit] = times.get(call.limit, 0.0) + call.time
    return max(times, key=lambda limit: times[limit])
