"""The layers of a decoder whose weights a checkpoint stores in few bits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from weft.llm.decoder import Decoder, product
from weft.llm.weights import Parameter, parameters
from weft.nn.layers import CLASSES
from weft.quant.checkpoint import Checkpoint
from weft.quant.layouts.imported import Imported
from weft.quant.layouts.joining import join
from weft.quant.layouts.methods import Layout, layout_of
from weft.quant.layouts.source import FLOATS, Source


@dataclass(frozen=True)
class Found:
    """Quantised layers by their names in the decoder, and the keys that they were read from."""

    layers: dict[str, torch.nn.Module] = field(default_factory=dict)
    keys: set[str] = field(default_factory=set)


class Joined(torch.nn.Module):  # type: ignore[misc]
    """Layers with the same input whose results are neighbours: their weights cannot be one.

    pieces  the layers, without a bias
    bias    of the whole result, or None
    """

    def __init__(
        self, pieces: Sequence[torch.nn.Module], bias: torch.nn.Parameter | None = None
    ) -> None:
        super().__init__()
        self.pieces = torch.nn.ModuleList(pieces)
        self.register_parameter("bias", bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.cat([product(piece, x) for piece in self.pieces], -1)
        return y if self.bias is None else y + self.bias


def layers(
    model: Decoder, facts: Any, stored: Checkpoint, device: torch.device | str, where: str
) -> Found:
    """Read the quantised layers of a checkpoint; their biases are empty.

    model  on the meta device
    facts  the quantization_config
    where  the file that has it, for errors
    """
    layout, found = layout_of(facts, where), Found()
    wanted = {key for p in parameters(model.config) for key in p.keys}
    for p in parameters(model.config):
        name = p.name.removesuffix(".weight")
        if name == p.name or not isinstance(model.get_submodule(name), torch.nn.Linear):
            continue
        own = model.get_submodule(name).bias
        bias = None if own is None else torch.nn.Parameter(torch.empty_like(own, device=device))
        sources = list(_sources(p, stored, model.dtype, found.keys))
        layer = _layer(sources, layout, bias, device)
        if layer is not None:
            found.layers[name] = layer
            for source in sources:
                _leave_zeros(source, wanted)
    return found


def _sources(
    p: Parameter, stored: Checkpoint, dtype: torch.dtype, used: set[str]
) -> Iterator[Source]:
    for key, shape in zip(p.keys, p.shapes, strict=True):
        n, k = reversed(shape) if p.turned else shape
        name = key.removesuffix(".weight")
        yield Source(name, (n, k), dtype, stored.tensors, stored.metadata, used)


def _layer(
    sources: Sequence[Source],
    layout: Layout,
    bias: torch.nn.Parameter | None,
    device: torch.device | str,
) -> torch.nn.Module | None:
    """Make one layer of all pieces; None if none is quantised."""
    dtype = sources[0].dtype
    pieces = [layout.read(source) for source in sources]
    given = [piece for piece in pieces if piece is not None]
    if not given:
        return None
    whole = join(given) if len(given) == len(pieces) else None
    if whole is not None:
        return whole.to(device, dtype).layer(bias)
    parts = (_piece(s, piece, device) for s, piece in zip(sources, pieces, strict=True))
    return Joined(list(parts), bias)


def _piece(source: Source, piece: Imported | None, device: torch.device | str) -> torch.nn.Module:
    if piece is not None:
        return piece.to(device, source.dtype).layer()
    n, k = source.shape
    plain = CLASSES["Linear"](k, n, bias=False, device=device, dtype=source.dtype)
    with torch.no_grad():
        plain.weight.copy_(source.take("weight", FLOATS, source.shape))
    made: torch.nn.Module = plain
    return made


def _leave_zeros(source: Source, wanted: set[str]) -> None:
    """Leave out biases of zeros, which some packages write for layers without a bias."""
    key = source.key("bias")
    if key in source.tensors and key not in wanted:
        bias = source.take("bias", FLOATS, (source.shape[0],))
        if bool(bias.any()):
            source.used.discard(key)  # an extra key, which is refused
