"""The result of `weft fuzz`: random programs that were judged, and those that went wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Fuzzed:
    """Random programs of a seed.

    programs     how many were judged, of `wanted`
    findings     records of those that went wrong: seed, program, kind, text, source
    folders      the folder of each finding
    interrupted  True if Ctrl-C ended the run
    """

    seed: int
    wanted: int
    programs: int
    seconds: float
    workers: int
    findings: tuple[dict[str, Any], ...] = ()
    folders: tuple[str, ...] = ()
    interrupted: bool = False

    def to_dict(self) -> dict[str, Any]:
        """JSON-compatible values."""
        return {
            "seed": self.seed,
            "programs": self.programs,
            "wanted": self.wanted,
            "seconds": round(self.seconds, 1),
            "per_second": round(self.programs / self.seconds, 2) if self.seconds else 0.0,
            "workers": self.workers,
            "interrupted": self.interrupted,
            "found": len(self.findings),
            "folders": list(self.folders),
            "findings": list(self.findings),
        }
