"""Results of `weft bench models`: layer calls of public models beside PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from weft.values.sweep import SweptCall

LIMITS = (0.8, 0.9, 0.92, 1.0)
"""Ratios below which calls are counted."""
CLOCKS = ("eager", "graph")
"""As called, and on the device alone, in a CUDA graph."""
HALF = ("float16", "bfloat16")
LEAST_PRECISE = 1.25
"""An error may be so many times the peer's: both are those of random roundings."""
ROUNDING = {"float32": 2**-24, "float16": 2**-11, "bfloat16": 2**-8}
"""The largest error of a rounding; what is below is as good as a result can be."""


@dataclass(frozen=True)
class LayerCall:
    """A layer call of a model.

    words     name the call, and make it again
    backward  True: forward and backward
    call      the tensors and options
    flops     of products, with those of the backward pass
    moved     the bytes of tensors that are read or written at least once
    least     the least seconds on the reference GPU
    bound     the resource that limits it there: "memory" or "compute"
    """

    model: str
    group: str
    kind: str
    layer: str
    words: str
    dtype: str
    backward: bool
    call: str
    flops: float
    moved: float
    least: float
    bound: str

    def to_dict(self) -> dict[str, Any]:
        """JSON-compatible values."""
        return asdict(self)


@dataclass(frozen=True)
class LayerTime:
    """A layer call and its measurement."""

    layer: LayerCall
    result: SweptCall

    def seconds(self, clock: str) -> dict[str, float]:
        """Seconds of every contender by one of CLOCKS."""
        return self.result.seconds if clock == "eager" else self.result.graph

    def ratio(self, clock: str) -> float:
        """The time of the best peer over weft's; NaN without a peer."""
        seconds = dict(self.seconds(clock))
        weft = seconds.pop("weft", math.nan)
        return min(seconds.values(), default=math.nan) / weft

    @property
    def imprecise(self) -> bool:
        """True if the error against a wider type exceeds that of PyTorch."""
        errors = self.result.errors
        if "torch" not in errors:
            return False
        return errors["weft"] > max(LEAST_PRECISE * errors["torch"], ROUNDING[self.layer.dtype])

    def to_dict(self) -> dict[str, Any]:
        """A row of the record."""
        about = self.layer
        return {
            "words": about.words,
            "group": about.group,
            "kind": about.kind,
            "dtype": about.dtype,
            "backward": about.backward,
            "flops": about.flops,
            "moved": about.moved,
            "least_us": round(1e6 * about.least, 2),
            "bound": about.bound,
            "case": self.result.op,
            **self.result.to_dict(),
        }

    @staticmethod
    def from_dict(row: Mapping[str, Any]) -> LayerTime:
        """The measurement of a row of a record."""
        model, layer, *_ = row["words"].split()
        about = LayerCall(
            model, row["group"], row["kind"], layer, row["words"], row["dtype"], row["backward"],
            row["call"], row["flops"], row["moved"], row["least_us"] / 1e6, row["bound"],
        )  # fmt: skip
        return LayerTime(about, SweptCall.from_dict(row["case"], row))


@dataclass(frozen=True)
class Speeds:
    """The ratios of some calls by one clock.

    mean   the geometric mean; NaN without calls
    below  how many are below each of LIMITS
    """

    calls: int
    mean: float
    worst: float
    below: tuple[int, ...]


@dataclass(frozen=True)
class ModelTimes:
    """The measurement of calls drawn with a seed; `times` are those that were made in time.

    gpu  the GPU, where a cluster measured them
    """

    seed: int
    drawn: int
    times: tuple[LayerTime, ...]
    gpu: str = ""

    @property
    def wrong(self) -> list[LayerTime]:
        return [t for t in self.times if t.result.wrong]

    @property
    def imprecise(self) -> list[LayerTime]:
        return [t for t in self.times if t.imprecise]

    @property
    def right(self) -> bool:
        """True if no result was wrong or less precise than PyTorch's."""
        return not self.wrong and not self.imprecise

    def worst(self, clock: str, count: int = 15) -> list[LayerTime]:
        """The calls that lose most, worst first."""
        compared = [t for t in self.times if not math.isnan(t.ratio(clock))]
        return sorted(compared, key=lambda t: t.ratio(clock))[:count]

    def slow(self, limit: float) -> list[LayerTime]:
        """The calls below a ratio by one of the clocks, and those that were wrong."""
        low = [t for t in self.times if any(t.ratio(clock) < limit for clock in CLOCKS)]
        return [t for t in self.times if t in low or t.result.wrong]

    @staticmethod
    def from_dict(record: Mapping[str, Any]) -> ModelTimes:
        """The measurement of a record."""
        times = tuple(map(LayerTime.from_dict, record["results"]))
        return ModelTimes(record["seed"], record["drawn"], times)

    def to_dict(self) -> dict[str, Any]:
        """The record."""
        return {
            "models": sorted({t.layer.model for t in self.times}),
            "seed": self.seed,
            "drawn": self.drawn,
            **({"gpu": self.gpu} if self.gpu else {}),
            "results": [t.to_dict() for t in self.times],
        }


def speeds(times: Iterable[LayerTime], clock: str) -> Speeds:
    """The ratios of the calls that were compared."""
    ratios = [r for r in (t.ratio(clock) for t in times) if not math.isnan(r)]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan
    below = tuple(sum(r < limit for r in ratios) for limit in LIMITS)
    return Speeds(len(ratios), mean, min(ratios, default=math.nan), below)


Group = tuple[str, Callable[[LayerCall], bool]]
GROUPS: tuple[Group, ...] = (
    ("products, 16 bits", lambda c: c.kind == "products" and c.dtype in HALF),
    ("all, 16 bits", lambda c: c.dtype in HALF),
    ("forward and backward, 16 bits", lambda c: c.backward and c.dtype in HALF),
    ("all, 32 bits", lambda c: c.dtype not in HALF),
)
"""Calls that are summarised together."""


def groups(times: Sequence[LayerTime]) -> dict[str, list[LayerTime]]:
    """The calls of GROUPS, then those of each kind and dtype; none is empty."""
    named = {name: [t for t in times if has(t.layer)] for name, has in GROUPS}
    for t in times:
        named.setdefault(f"{t.layer.kind}, {t.layer.dtype}", []).append(t)
    return {name: found for name, found in named.items() if found}
