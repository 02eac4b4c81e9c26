"""The results of a climb: its rungs, their times, and the texts of its ladder."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self


@dataclass(frozen=True)
class Time:
    """The time of a rung or a peer on one case.

    of_limit   the case's limit over this time: 1 is the hardware limit
    of_peer    the best peer's time over this time: above 1 is faster than the peer
    notes      remarks for the reader, e.g. that it is shorter than its launch
    memory     bytes of GPU memory at the peak of a call, with its outputs; None if not measured
    """

    case: str
    seconds: float
    low: float
    high: float
    how: str
    of_limit: float = 0.0
    of_peer: float = 0.0
    samples: int = 0
    notes: tuple[str, ...] = ()
    memory: int | None = None


@dataclass(frozen=True)
class RungResult:
    """The result of one rung, or of a contender of `weft bench`, whose number is negative.

    number, name  its place on the ladder and what it is called
    idea          what it does differently from the rung before
    language      "CUDA C++", "Triton", "Numba" or "Python"
    precision     what it computes in, e.g. "f32"
    right         whether its results are correct and its counters are as its header states
    error         why it is wrong
    missing       why it could not be run, e.g. a package that is not installed
    facts         counters of the simulator, on the first case
    times         its times; on the simulated GPU the recorded ones
    predicted     the modelled seconds of its launches on the first case; 0 if there are none

    >>> rung = weft.climb("vecadd", to=0).rungs[0]
    >>> print(rung.title, rung.language, rung.right)
    00 one thread CUDA C++ True
    """

    number: int
    name: str
    idea: str
    language: str
    precision: str
    right: bool = True
    error: str = ""
    missing: str = ""
    facts: Mapping[str, float] = field(default_factory=dict)
    times: tuple[Time, ...] = ()
    predicted: float = 0.0

    @property
    def title(self) -> str:
        """Its number and name: "00 naive"."""
        return f"{self.number:02} {self.name}" if self.number >= 0 else self.name


@dataclass(frozen=True)
class ClimbResult:
    """A climb as it is stored: `weft.Climb` describes the fields and shows it."""

    ladder: str
    device: str
    gpu: str
    rungs: tuple[RungResult, ...]
    peers: Mapping[str, tuple[Time, ...]] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)
    when: str = ""
    precision: str = ""
    floors: Mapping[str, str] = field(default_factory=dict)
    counted: str = ""
    recorded: str = ""

    def fastest(self, case: str) -> float:
        """The least time of all rungs and peers on a case, in seconds."""
        every = [r.times for r in self.rungs] + list(self.peers.values())
        return min((t.seconds for times in every for t in times if t.case == case), default=0.0)

    def named(self, rung: RungResult) -> str:
        """The title of a rung, with its precision where it is below f32."""
        full = rung.precision in ("", "f32", "f64", self.precision)
        return rung.title if full else f"{rung.title} (in {rung.precision})"

    @property
    def right(self) -> bool:
        """True if every rung is right."""
        return all(r.right for r in self.rungs)

    def to_dict(self) -> dict[str, Any]:
        """The result as a dict, for JSON."""
        when = self.when or time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        return {**asdict(self), "when": when}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """The result of a dict that `to_dict` gave."""

        def times(many: Sequence[Mapping[str, Any]]) -> tuple[Time, ...]:
            return tuple(Time(**{**t, "notes": tuple(t.get("notes", ()))}) for t in many)

        rungs = tuple(RungResult(**{**r, "times": times(r["times"])}) for r in record["rungs"])
        peers = {name: times(many) for name, many in record["peers"].items()}
        return cls(**{**record, "rungs": rungs, "peers": peers})


@dataclass(frozen=True)
class ListedLadder:
    """A ladder, the titles of its rungs, and what it computes."""

    name: str
    rungs: tuple[str, ...]
    about: str


@dataclass(frozen=True)
class RungText:
    """The file of a rung, and the lesson in its header."""

    title: str
    lesson: str
    file: str
    source: str


@dataclass(frozen=True)
class LadderText:
    """The texts of a ladder, which reports show beside the results.

    about      one line on what it computes
    signature  its inputs and outputs
    text       its ladder.md
    read       the file or the command that shows this text
    """

    about: str
    signature: str
    text: str
    read: str
    rungs: tuple[RungText, ...]
