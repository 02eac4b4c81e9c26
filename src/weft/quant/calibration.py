"""Statistics of the inputs of linear layers: `weft.quant.calibrate`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.quant.batches import check_batches, check_model, inference, linear_layers, run, watched
from weft.quant.sources import Sources


@dataclass(frozen=True)
class Activations:
    """The inputs of one layer.

    amax     largest magnitude of each channel [K]
    energy   mean square of each channel [K]: the diagonal of the Hessian of the layer's error
    rows     the number of inputs
    norm     the norm that makes these inputs and nothing else, or ""

    >>> layer = torch.nn.Linear(2, 2)
    >>> found = weft.quant.calibrate(layer, [torch.tensor([[1.0, -3.0], [1.0, 1.0]])])
    >>> print(found[""].amax.tolist(), found[""].energy.tolist(), found[""].rows)
    [1.0, 3.0] [1.0, 5.0] 2
    """

    amax: torch.Tensor
    energy: torch.Tensor
    rows: int
    norm: str = ""


class Calibration(dict[str, Activations]):
    """The statistics of a model: the name of a layer -> its `Activations`.

    >>> model = torch.nn.Sequential(torch.nn.LayerNorm(4), torch.nn.Linear(4, 2))
    >>> found = weft.quant.calibrate(model, [torch.ones(3, 4)])
    >>> print({name: layer.norm for name, layer in found.items()})
    {'1': '0'}
    """

    def layer(self, name: str) -> Activations:
        """Look up a layer; raise for one that no batch has reached."""
        if name not in self:
            raise ArgumentError(
                "the calibration has no inputs of this layer",
                where=name,
                got=f"{len(self)} layers",
                next="calibrate with batches that reach it, or add it to skip",
            )
        return self[name]


def calibrate(model: torch.nn.Module, batches: Iterable[Any]) -> Calibration:
    """Run a model on batches, and keep statistics of the inputs of each linear layer.

    model     a module of PyTorch; it runs in evaluation mode, without gradients
    batches   each a tensor, a tuple of arguments or a mapping of named ones

    `weft.quant.convert` uses the result: scales that are clipped for the least error of the
    layer's output, `smooth` and `keep`.

    >>> found = weft.quant.calibrate(torch.nn.Linear(4, 2), [torch.ones(3, 4)])
    >>> print(found[""].rows)
    3
    """
    layers = linear_layers(check_model(model))
    running: dict[str, _Running] = {}

    def seen(name: str, x: torch.Tensor) -> None:
        running.setdefault(name, _Running(name, x)).add(x)

    with contextlib.ExitStack() as stack:
        stack.enter_context(inference(model))
        sources = Sources(model, layers)
        stack.callback(sources.remove)
        stack.enter_context(watched(layers, seen))
        for batch in check_batches(batches):
            with sources:
                output = run(model, batch)
            sources.ended(output)
    return Calibration(_activations(running, sources.foldable()))


def _activations(
    running: Mapping[str, _Running], norms: Mapping[str, str]
) -> dict[str, Activations]:
    return {
        name: Activations(r.amax, (r.squares / r.rows).float(), r.rows, norms.get(name, ""))
        for name, r in running.items()
    }


class _Running:
    """Sums over batches; squares are added in float64, so that long runs lose nothing."""

    def __init__(self, name: str, x: torch.Tensor) -> None:
        self.name, self.rows = name, 0
        self.amax = torch.zeros(x.shape[-1], device=x.device)
        self.squares = torch.zeros(x.shape[-1], device=x.device, dtype=torch.float64)

    def add(self, x: torch.Tensor) -> None:
        rows = x.reshape(-1, x.shape[-1])
        if not rows.shape[0]:
            return
        most = rows.abs().amax(0).float()
        if not bool(most.isfinite().all()):
            raise ArgumentError(
                "an input of a layer is not finite",
                where=f"{self.name or 'the model'}, channel {int((~most.isfinite()).nonzero()[0])}",
                got=str(float(most[~most.isfinite()][0])),
                next="look for the batch or the layer before that makes it",
            )
        self.rows += rows.shape[0]
        self.amax = torch.maximum(self.amax, most)
        self.squares += rows.double().square().sum(0)
