"""Tables of the errors of quantised layers, computed in float64 on drawn weights and inputs."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from weft import ops, quant
from weft.networks.draws import Draws

Table = Callable[..., str]
N, K, COUNT = 256, 512, 512
LARGE = 30.0
"""The scale of the large input channels, one in 64."""
FORMATS = (
    "int8:tensor", "int8", "int8:128", "int4", "int4:128", "int4:64", "int4:32", "e4m3:tensor",
    "e4m3", "e4m3:block", "e5m2",
)  # fmt: skip
TECHNIQUES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("rounding alone", "int4", {"group": 128}),
    ("zeros", "int4", {"group": 128, "symmetric": False}),
    ("clipped scales", "int4", {"group": 128, "calibration": True}),
    ("clipped scales, 1 % in 16 bits", "int4", {"group": 128, "calibration": True, "keep": 0.01}),
    ("8-bit inputs", "int8", {"dynamic": True}),
    ("clipped scales", "int8", {"dynamic": True, "calibration": True}),
    ("scale migration", "int8", {"dynamic": True, "calibration": True, "smooth": 0.5}),
    ("2 % in 16 bits", "int8", {"dynamic": True, "calibration": True, "keep": 0.02}),
    ("8-bit inputs", "e4m3", {"dynamic": True}),
    ("clipped scales", "e4m3", {"dynamic": True, "calibration": True}),
    ("scale migration", "e4m3", {"dynamic": True, "calibration": True, "smooth": 0.5}),
)
"""Name, format, and the options of `weft.quant.convert`."""


@functools.cache
def drawn() -> tuple[torch.nn.Linear, torch.Tensor]:
    """A layer with heavy tails, and inputs with some large channels."""
    draws = Draws(0)
    layer = torch.nn.Linear(K, N, bias=False)
    tails = draws.normal(N, K)
    weight = draws.normal(N, K) * (1 + tails * tails) * (2.0**-1 * K**-0.5)
    layer.weight = torch.nn.Parameter(weight)
    x = draws.normal(COUNT, K)
    x[:, ::64] *= LARGE
    return layer, x


def formats(table: Table) -> str:
    """Formats and granularities without calibration."""
    layer, x = drawn()
    (found,) = quant.report(layer, x, formats=FORMATS).layers
    body = []
    for noise in found.formats:
        name, _, group = noise.format.partition(":")
        assert noise.snr is not None and noise.worst_snr is not None
        cells = f"{noise.bits:.2f}", f"{noise.snr:.1f}", f"{noise.worst_snr:.1f}"
        body.append((f"`{name}`", group or "channel", *cells))
    header = ("format", "group", "bits#", "output, dB#", "worst channel, dB#")
    return table(header, body)


def techniques(table: Table) -> str:
    """Options of `convert` on the same layer."""
    layer, x = drawn()
    found = quant.calibrate(layer, [x])
    exact = x.double() @ layer.weight.detach().double().T
    body = []
    for name, form, options in TECHNIQUES:
        given = {**options, "calibration": found} if options.get("calibration") else options
        noise = output(quant.convert(layer, form, **given), x) - exact
        ratio = 10 * math.log10(float(exact.square().sum() / noise.square().sum()))
        words = ", ".join(f"{k}={_shown(k, v)}" for k, v in options.items())
        body.append((name, f"`{form}`", f"`{words}`", f"{ratio:.1f}"))
    return table(("technique", "format", "options of `convert`", "output, dB#"), body)


def output(layer: Any, x: torch.Tensor) -> torch.Tensor:
    """The output of a quantised layer with sums in float64."""
    if layer.multiplier is not None:
        x = x * layer.multiplier
    kept = torch.zeros(1, dtype=torch.float64)
    if layer.columns is not None:
        kept = x[:, layer.columns].double() @ layer.kept.double().T
        x = x.index_fill(1, layer.columns, 0)
    value = x.double()
    if isinstance(layer, quant.DynamicLinear):
        stored, scale = ops.quantise(x, layer.quantised.form.dtype)
        value = stored.double() * scale.double()
    return value @ layer.quantised.dequantise(torch.float64).T + kept


def _shown(name: str, value: Any) -> str:
    return "found" if name == "calibration" else str(value)


TABLES = {"quantisation_formats": formats, "quantisation_techniques": techniques}
