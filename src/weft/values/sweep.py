"""Results of the op library's sweep: calls of ops beside PyTorch, and candidates of one call."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class SweptCall:
    """One call: whether it is right, and seconds per call and peak memory of every contender.

    failed  the contenders that raised an error, "reference" if the float64 computation did, and
            their reasons
    graph   seconds per call in a CUDA graph, where the host takes no part
    errors  of weft and of torch against the reference: the root mean square over that of the
            reference, of the result in which weft compares worst
    """

    op: str
    call: str
    plan: str
    error: float
    right: bool
    seconds: dict[str, float] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    graph: dict[str, float] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """The speed-up over the best other contender; NaN if there is none."""
        others = [s for name, s in self.seconds.items() if name != "weft"]
        return min(others) / self.seconds["weft"] if others else math.nan

    @property
    def wrong(self) -> bool:
        """True if weft gave a wrong result, or none."""
        return "weft" in self.failed or not (self.right or self.failed)

    def to_dict(self) -> dict[str, Any]:
        """A row of the record."""
        return {
            "call": self.call,
            "plan": self.plan,
            "error": _finite(self.error),
            "right": self.right,
            "us": _microseconds(self.seconds),
            "bytes": self.memory,
            **({"graph_us": _microseconds(self.graph)} if self.graph else {}),
            **({"errors": self.errors} if self.errors else {}),
            **({"failed": self.failed} if self.failed else {}),
        }

    @staticmethod
    def from_dict(op: str, row: Mapping[str, Any]) -> SweptCall:
        """The call of a row of a record."""
        error = math.nan if row["error"] is None else row["error"]
        times = [{n: us / 1e6 for n, us in row.get(k, {}).items()} for k in ("us", "graph_us")]
        return SweptCall(
            op, row["call"], row["plan"], error, row["right"], times[0], row.get("bytes", {}),
            row.get("failed", {}), times[1], row.get("errors", {}),
        )  # fmt: skip


@dataclass(frozen=True)
class DrawnCalls:
    """Calls of one op, drawn with a seed and with at most `most` elements in a tensor.

    again  True if they are some of a record's calls
    gpu    the GPU that they are for, where a cluster measures them
    """

    op: str
    seed: int
    most: int
    again: bool = field(default=False, kw_only=True)
    gpu: str = field(default="", kw_only=True)


@dataclass(frozen=True)
class Swept(DrawnCalls):
    """The results of such calls."""

    results: tuple[SweptCall, ...]

    @property
    def mean(self) -> float:
        """The geometric mean of how many times as fast as the best peer the calls are."""
        return mean(self.results)

    @property
    def wrong(self) -> list[SweptCall]:
        return [r for r in self.results if r.wrong]

    @property
    def compared(self) -> list[SweptCall]:
        """The calls that were timed with at least one peer."""
        return [r for r in self.results if not math.isnan(r.ratio)]

    def worst(self, count: int = 10) -> list[SweptCall]:
        """The calls that lose most, worst first."""
        return sorted(self.compared, key=lambda r: r.ratio)[:count]

    def memory_ratio(self) -> str:
        """The peak memory of all calls over PyTorch's; "" if it was not measured."""
        weft, torch = (sum(r.memory.get(n, 0) for r in self.results) for n in ("weft", "torch"))
        return f"{weft / torch:.2f} x" if torch else ""

    def to_dict(self) -> dict[str, Any]:
        """The record."""
        return {
            "op": self.op,
            "seed": self.seed,
            "most": self.most,
            **({"again": True} if self.again else {}),
            **({"gpu": self.gpu} if self.gpu else {}),
            "mean": _finite(self.mean),
            "results": [r.to_dict() for r in self.results],
        }


def mean(results: Sequence[SweptCall]) -> float:
    """The geometric mean of the ratios; NaN if no call has one."""
    ratios = [r.ratio for r in results if not math.isnan(r.ratio)]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan


def _microseconds(seconds: dict[str, float]) -> dict[str, float]:
    return {name: round(1e6 * s, 2) for name, s in seconds.items()}


def _finite(number: float) -> float | None:
    """JSON has neither NaN nor infinity."""
    return number if math.isfinite(number) else None


@dataclass(frozen=True)
class HostTime:
    """Microseconds of the host per call."""

    op: str
    shape: tuple[int, ...]
    weft_us: float
    torch_us: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


# ---- candidates ----------------------------------------------------------------------------------
@dataclass(frozen=True)
class CandidateTime:
    """One candidate: seconds as modelled and as measured, or the reason for no measurement."""

    name: str
    why: str
    modelled: float
    measured: float | None = None
    failure: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {
            "candidate": self.name,
            "why": self.why,
            "modelled_seconds": self.modelled,
            "measured_seconds": self.measured,
            "failure": self.failure,
        }

    @staticmethod
    def from_dict(row: Mapping[str, Any]) -> CandidateTime:
        """The candidate of a row of a record."""
        return CandidateTime(
            row["candidate"],
            row["why"],
            row["modelled_seconds"],
            row["measured_seconds"],
            row["failure"],
        )


@dataclass(frozen=True)
class Tuned:
    """A call, its candidates, and the chosen one before and after.

    stored  True if the winner is in the user's cache
    """

    op: str
    call: str
    gpu: str
    rows: tuple[CandidateTime, ...]
    before: str
    chosen: str
    stored: bool = False

    @property
    def gain(self) -> float:
        """The speed-up over the previous choice; 1 if not measured."""
        measured = {row.name: row.measured for row in self.rows}
        before, now = measured[self.before], measured[self.chosen]
        return before / now if before and now else 1.0

    def to_dict(self) -> dict[str, Any]:
        """JSON-compatible values."""
        return {
            "op": self.op,
            "call": self.call,
            "gpu": self.gpu,
            "before": self.before,
            "chosen": self.chosen,
            "stored": self.stored,
            "gain": self.gain,
            "candidates": [row.to_dict() for row in self.rows],
        }

    @staticmethod
    def from_dict(line: Mapping[str, Any]) -> Tuned:
        """The call of a line of a record."""
        rows = tuple(map(CandidateTime.from_dict, line["candidates"]))
        return Tuned(
            line["op"], line["call"], line["gpu"], rows, line["before"], line["chosen"],
            line["stored"],
        )  # fmt: skip
