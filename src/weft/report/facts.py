"""Facts of a profile that its page and the lab both show."""

from __future__ import annotations

from typing import Any, NamedTuple

from weft.report import words
from weft.values.analysis import AnalysedProfile
from weft.values.profile import UNIT_COUNTERS, Line, line_counters


def head(p: AnalysedProfile) -> dict[str, Any]:
    """The launch, its GPU, and its bound and floor."""
    return {
        "kernel": p.launch.kernel,
        "grid": words.dims(p.launch.grid),
        "block": words.dims(p.launch.block),
        "gpu": p.model.name,
        "launches": p.launches,
        "bound": p.roofline.bound,
        "time": words.duration(p.roofline.bound_seconds),
        "floor": words.duration(p.roofline.floor),
        "arrays": [[a.name, *map(words.size, (a.nbytes, a.read, a.written))] for a in p.arrays],
    }


def heat(p: AnalysedProfile, line: Line, digits: int, scale: float = 1) -> dict[str, float]:
    """The line's part of each counter."""
    counters = line_counters(p.lines)
    totals = {name: sum(of(x) for x in p.lines) for name, of in counters.items()}
    return {
        name: round(scale * of(line) / totals[name], digits) if totals[name] else 0.0
        for name, of in counters.items()
    }


class Column(NamedTuple):
    """A column of the table of source lines, for kernels that use a unit."""

    counter: str
    head: str
    title: str
    bytes: bool = False

    def text(self, line: Line) -> str:
        """The value of a line, or ""."""
        value = UNIT_COUNTERS[self.counter](line)
        return (words.size if self.bytes else words.amount)(value) if value else ""


_COLUMNS = (
    Column("tensor operations", "tensor", "operations of tensor cores"),
    Column("TMA bytes", "TMA", "bytes of global memory that bulk and tensor copies move", True),
    Column("multicast bytes", "multicast", "bytes that multicasts write, in all blocks", True),
    Column("cluster bytes", "cluster", "bytes of other blocks' shared memory", True),
    Column("barrier waits", "waits", "times that a warp has waited at a barrier"),
)


def columns(p: AnalysedProfile) -> list[Column]:
    """The columns that a profile has beside those of every profile."""
    used = line_counters(p.lines)
    return [c for c in _COLUMNS if c.counter in used]


def marks(line: Line) -> dict[str, bool]:
    """Too many sectors or wavefronts, by the thresholds of the advice on coalescing and banks."""
    in_global = [a for a in line.accesses if a.space == "global"]
    return {
        "wide": any(a.sectors > 1.25 * a.sectors_ideal for a in in_global),
        "deep": any(a.wavefronts > 1.5 * a.wavefronts_ideal for a in line.accesses),
    }
