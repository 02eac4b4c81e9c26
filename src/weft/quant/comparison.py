"""Errors of formats, layer by layer: `weft.quant.report`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.quant.batches import check_model, inference, linear_layers, run, watched
from weft.quant.formats import FORMATS, check_group, format_of
from weft.quant.rounding import quantise
from weft.quoting import quoted
from weft.values.quantisation import EDGES, FormatNoise, LayerNoise, NoiseReport

MOST_ROWS = 1024
"""Inputs of a layer that its error is computed for: more change the ratio little."""


class Report(NoiseReport):
    """The errors of formats in each layer; printed as a table.

    model    the class of the model
    layers   each with its shape and a `FormatNoise` for every format

    >>> layer = torch.nn.Linear(32, 8)
    >>> found = weft.quant.report(layer, torch.ones(4, 32), formats=["int8"])
    >>> print(found.layers[0].shape, found.layers[0].formats[0].bits)
    (8, 32) 9.0
    """

    def __str__(self) -> str:
        from weft.report import words
        from weft.report.quantisation import view

        return words.plain(view(self))

    def save(self, path: str | Path) -> None:
        """Write a page with a histogram of errors for each layer and format."""
        from weft.report.files import write
        from weft.report.quantisation import page

        write(path, page(self))

    def _repr_html_(self) -> str:
        """The notebook's view: the page in an iframe."""
        from weft.report import cells
        from weft.report.quantisation import page

        return cells.frame(page(self), "weft.quant.report")


def report(model: torch.nn.Module, inputs: Any, formats: Iterable[str] = tuple(FORMATS)) -> Report:
    """Compare the outputs of linear layers in several formats with float64.

    model     a module of PyTorch; it does not change
    inputs    one batch: a tensor, a tuple of arguments or a mapping of named ones
    formats   e.g. "int8", or with its group "int4:32", "e4m3:block"

    The weights are quantised as by `quantise` without calibration. A layer that cannot have a
    format, e.g. because the group does not divide its columns, has the reason in its place.

    >>> model = torch.nn.Sequential(torch.nn.Linear(32, 8))
    >>> found = weft.quant.report(model, torch.ones(4, 32), formats=["int8", "int4:32"])
    >>> found.save("report.html")
    """
    chosen = [_parsed(one) for one in _listed(formats)]
    layers = linear_layers(check_model(model))
    inputs_of: dict[str, list[torch.Tensor]] = {}
    with inference(model), watched(layers, lambda name, x: _keep(inputs_of, name, x)):
        run(model, inputs)
    if not inputs_of:
        raise ArgumentError(
            "the inputs reach no linear layer",
            got=f"{type(model).__name__} with {len(layers)} linear layers",
            allowed="a model with torch.nn.Linear or weft.nn.Linear",
        )
    found = (
        _layer(name, layers[name], _sampled(torch.cat(rows)), chosen)
        for name, rows in inputs_of.items()
    )
    return Report(type(model).__name__, tuple(found))


Chosen = tuple[str, str, int | str | None]
"""A format as it was written, its name and its group."""


def _listed(formats: object) -> list[object]:
    if isinstance(formats, str) or not isinstance(formats, Iterable) or not (all_ := list(formats)):
        raise ArgumentError(
            "formats is no list of formats", got=quoted(formats), allowed='["int8", "int4:32"]'
        )
    return all_


def _parsed(word: object) -> Chosen:
    name, _, group = word.partition(":") if isinstance(word, str) else (word, "", "")
    form = format_of(name)
    return str(word), form.name, check_group(form, int(group) if group.isdigit() else group or None)


def _keep(found: dict[str, list[torch.Tensor]], name: str, x: torch.Tensor) -> None:
    found.setdefault(name, []).append(x.reshape(-1, x.shape[-1]))


def _sampled(rows: torch.Tensor) -> torch.Tensor:
    """Evenly spaced rows, at most MOST_ROWS, in float64."""
    return rows[:: max(1, -(-rows.shape[0] // MOST_ROWS))].double()


def _layer(
    name: str, layer: torch.nn.Module, x: torch.Tensor, chosen: Sequence[Chosen]
) -> LayerNoise:
    weight = layer.weight.detach()
    exact = x @ weight.double().T
    signal = exact if layer.bias is None else exact + layer.bias.detach().double()
    noises = tuple(_noise(one, weight, x, exact, signal) for one in chosen)
    return LayerNoise(name, (weight.shape[0], weight.shape[1]), x.shape[0], noises)


def _noise(
    chosen: Chosen, weight: torch.Tensor, x: torch.Tensor, exact: torch.Tensor, signal: torch.Tensor
) -> FormatNoise:
    label, form, group = chosen
    try:
        quantised = quantise(weight, form, group)
    except ArgumentError as error:
        return FormatNoise(label, refused=f"{label}: {error.what} ({error.got})")
    away = x @ quantised.dequantise(torch.float64).T - exact
    channels = _decibels(signal.square().sum(0), away.square().sum(0))
    worst = int(channels.argmin())
    return FormatNoise(
        label,
        quantised.bits,
        _finite(_decibels(signal.square().sum(), away.square().sum())),
        worst,
        _finite(channels[worst]),
        _histogram(away, signal),
    )


def _decibels(signal: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """10 log10(signal / noise): infinite without noise, -300 at least."""
    ratio = torch.where(noise > 0, signal / noise, torch.full_like(noise, torch.inf))
    return 10 * ratio.clamp(min=1e-30).log10()


def _finite(ratio: torch.Tensor) -> float | None:
    """A ratio; None without noise."""
    return float(ratio) if bool(ratio < torch.inf) else None


def _histogram(error: torch.Tensor, signal: torch.Tensor) -> tuple[int, ...]:
    size = signal.square().mean().sqrt().clamp(min=torch.finfo(signal.dtype).tiny)
    part = (error.abs() / size).clamp(EDGES[0], EDGES[-1]).flatten()
    inner = torch.tensor(EDGES[1:-1], dtype=part.dtype, device=part.device)
    counts = torch.bucketize(part, inner, right=True).bincount(minlength=len(EDGES) - 1)
    return tuple(int(n) for n in counts)
