"""Errors of quantised layers: formats, layer by layer."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

EDGES = tuple(10 ** (exponent / 2) for exponent in range(-12, 3))
"""The bins of histograms: |error| over the root mean square of the layer's output."""


@dataclass(frozen=True)
class FormatNoise:
    """The error of one layer in one format.

    format         e.g. int4, or int4:32 with its group
    bits           of one weight, with its share of scales
    snr            signal-to-noise ratio of the output in dB; None if there is no error
    worst_channel  the output channel of the least ratio
    worst_snr      its ratio in dB
    histogram      outputs by their errors, in the bins of EDGES; the outer ones hold the rest
    refused        the reason why the layer cannot have this format, or ""
    """

    format: str
    bits: float = 0.0
    snr: float | None = None
    worst_channel: int = 0
    worst_snr: float | None = None
    histogram: tuple[int, ...] = ()
    refused: str = ""


@dataclass(frozen=True)
class LayerNoise:
    """One layer, its shape (N, K), the number of inputs, and its error in each format."""

    layer: str
    shape: tuple[int, int]
    rows: int
    formats: tuple[FormatNoise, ...]


@dataclass(frozen=True)
class NoiseReport:
    """The layers of a model in order, each with its error in every format."""

    model: str
    layers: tuple[LayerNoise, ...]

    @property
    def formats(self) -> tuple[str, ...]:
        """The formats, in the order of the columns."""
        return tuple(f.format for f in self.layers[0].formats) if self.layers else ()

    def worst(self, format: str) -> tuple[str, float] | None:
        """The layer with the least signal-to-noise ratio in a format; None if none has errors."""
        found = [
            (layer.layer, f.snr)
            for layer in self.layers
            for f in layer.formats
            if f.format == format and f.snr is not None
        ]
        return min(found, key=lambda pair: pair[1], default=None)

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {**asdict(self), "edges": EDGES}
