"""Results of `weft bench networks`: steps of whole networks, by PyTorch and by weft."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from statistics import median
from typing import Any

OWN = "weft"
"""Contenders whose names begin so compute with weft's kernels; the others are the peers."""
CLOCKS = ("called", "graph")
"""As a user calls a step, and captured as a CUDA graph."""
EXPECTED = "eager"
"""The contender whose losses the others must have."""
AGREES = {"fp32": 1e-3, "bf16": 5e-2, "autocast": 5e-2}
"""The relative difference of losses that is right in any case."""
SPREAD = 2.0
"""It may also be so many times the largest difference between PyTorch and its compiler."""


@dataclass(frozen=True)
class NetworkCase:
    """A step of a network.

    training       True: forward, backward and update; False: forward alone
    dtype          bf16 or fp32, of weights and inputs; autocast: fp32, computed in bf16
    length         tokens of a text, or the side of an image; 0: the network's own
    channels_last  the memory format of images
    """

    network: str
    size: str
    training: bool
    dtype: str
    batch: int
    length: int = 0
    channels_last: bool = False

    @property
    def words(self) -> str:
        """The case as text."""
        parts = [
            f"{self.network}-{self.size}",
            "train" if self.training else "inference",
            self.dtype,
            f"batch={self.batch}",
        ]
        parts += [f"length={self.length}"] if self.length else []
        parts += ["channels_last"] if self.channels_last else []
        return " ".join(parts)


@dataclass(frozen=True)
class StepTimes:
    """The measurement of a contender.

    seconds        of a step as called, one number per turn
    graph          of a step in a CUDA graph, likewise
    first          seconds of the first step, in which kernels are compiled
    second         likewise, in a second process, which finds compiled code in the caches
    losses         of the first steps; of inference, the loss of the result
    memory         the most bytes of tensors at a time in a step
    reserved       the most bytes that PyTorch's allocator has had
    kernels        the kernels of a step: name, launches, microseconds; the longest first
    failed         the reason why there are no times
    graph_failed   the reason why there is no graph
    graph_apart    the largest relative difference of its losses to those of steps as called
    alone          True: timed after the others, which left too little memory
    """

    seconds: tuple[float, ...] = ()
    graph: tuple[float, ...] = ()
    first: float = math.nan
    second: float = math.nan
    losses: tuple[float, ...] = ()
    memory: int = 0
    reserved: int = 0
    kernels: tuple[tuple[str, int, float], ...] = ()
    failed: str = ""
    graph_failed: str = ""
    graph_apart: float = 0.0
    alone: bool = False

    def time(self, clock: str) -> float:
        """The median seconds of a step by one of CLOCKS; infinity where there are none."""
        turns = self.seconds if clock == "called" else self.graph
        return median(turns) if turns else math.inf

    @property
    def best(self) -> float:
        """The least of both clocks."""
        return min(self.time(clock) for clock in CLOCKS)


@dataclass(frozen=True)
class NetworkTime:
    """A step of a network, measured for several contenders."""

    case: NetworkCase
    results: dict[str, StepTimes] = field(default_factory=dict)

    def ratio(self, clock: str = "") -> float:
        """The time of the fastest peer over that of weft's fastest contender.

        clock  one of CLOCKS; by default a contender has the better one of both

        NaN without a time of either.
        """
        ours, theirs = (
            min((self._time(n, clock) for n in self.results if own(n) == mine), default=math.inf)
            for mine in (True, False)
        )
        return theirs / ours if math.isfinite(ours) and math.isfinite(theirs) else math.nan

    def _time(self, name: str, clock: str) -> float:
        result = self.results[name]
        return result.time(clock) if clock else result.best

    def apart(self, name: str) -> float:
        """The largest relative difference between a contender's losses and PyTorch's.

        NaN without losses to compare.
        """
        expected = self.results.get(EXPECTED)
        found = self.results[name].losses
        if expected is None or not found or not expected.losses:
            return math.nan
        if not all(map(math.isfinite, found)):
            return math.inf
        pairs = zip(found, expected.losses, strict=False)
        return max(abs(a - b) / max(abs(b), 1e-30) for a, b in pairs)

    @property
    def wrong(self) -> list[str]:
        """The contenders of weft whose losses are not PyTorch's, or not those of their graph."""
        peers = [self.apart(n) for n in self.results if not own(n)]
        spread = max((a for a in peers if math.isfinite(a)), default=0.0)
        least = AGREES[self.case.dtype]
        most = max(least, SPREAD * spread)
        return [
            name
            for name, result in self.results.items()
            if own(name) and (self.apart(name) > most or result.graph_apart > least)
        ]

    def to_dict(self) -> dict[str, Any]:
        """A row of the record."""
        results = {name: _plain(asdict(r)) for name, r in self.results.items()}
        return {**asdict(self.case), "words": self.case.words, "results": results}

    @staticmethod
    def from_dict(row: Mapping[str, Any]) -> NetworkTime:
        """The measurement of a row of a record, which may name the machine as well."""
        case = NetworkCase(**{f.name: row[f.name] for f in fields(NetworkCase)})
        return NetworkTime(case, {name: _result(r) for name, r in row["results"].items()})


@dataclass(frozen=True)
class NetworkTimes:
    """The cases that were measured in time, of those that were `asked` for."""

    asked: int
    times: tuple[NetworkTime, ...]

    @property
    def failed(self) -> list[tuple[NetworkCase, str, str]]:
        """Contenders of weft that have no times, and why."""
        return [
            (t.case, name, r.failed)
            for t in self.times
            for name, r in t.results.items()
            if own(name) and r.failed
        ]

    @property
    def right(self) -> bool:
        """True if no contender of weft failed or has other losses than PyTorch."""
        return not self.failed and not any(t.wrong for t in self.times)

    def to_dict(self) -> dict[str, Any]:
        """The record."""
        return {"asked": self.asked, "networks": [t.to_dict() for t in self.times]}


def own(name: str) -> bool:
    """True if a contender computes with weft's kernels."""
    return name.startswith(OWN)


def mean(ratios: Iterable[float]) -> float:
    """The geometric mean of the ratios that are numbers; NaN without one."""
    found = [r for r in ratios if not math.isnan(r)]
    return math.exp(sum(map(math.log, found)) / len(found)) if found else math.nan


def _plain(result: dict[str, Any]) -> dict[str, Any]:
    """A result for JSON, without fields that are empty and without NaN."""
    kept = {k: v for k, v in result.items() if v and v == v}
    for name in ("seconds", "graph", "losses"):
        if name in kept:
            kept[name] = [float(f"{x:.6g}") for x in kept[name]]
    return kept


def _result(row: Mapping[str, Any]) -> StepTimes:
    lists = {k: tuple(v) for k, v in row.items() if isinstance(v, list)}
    if "kernels" in lists:
        lists["kernels"] = tuple(tuple(k) for k in lists["kernels"])
    return StepTimes(**{**row, **lists})
