"""Load a decoder from the folder of a public model."""

from __future__ import annotations

from pathlib import Path

import torch

from weft.errors import ArgumentError
from weft.llm import config, quantised, weights
from weft.llm.decoder import Decoder
from weft.quant import checkpoint

FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def load(
    folder: str | Path, device: torch.device | str | None = None, dtype: torch.dtype | None = None
) -> Decoder:
    """Read config.json and the weights; see `weft.llm.load`."""
    path = Path(folder)
    if not path.is_dir():
        raise ArgumentError("weft.llm.load: there is no such folder", got=str(folder))
    if dtype is not None and dtype not in FLOATS:
        raise ArgumentError(
            "weft.llm.load: the dtype is not supported",
            got=str(dtype),
            allowed=", ".join(map(str, FLOATS)),
        )
    sizes = config.read(path / "config.json")
    facts = config.quantisation(path / "config.json")
    stored = weights.named(sizes, checkpoint.read(path))
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Decoder(sizes, "meta", dtype or _dtype(stored.tensors))
    found = quantised.Found()
    if facts is not None:
        found = quantised.layers(model, facts, stored, device, str(path / "config.json"))
    for name in found.layers:  # they have their weights: to_empty must not make any
        model.set_submodule(name, torch.nn.Identity())
    model.to_empty(device=device)
    for name, layer in found.layers.items():
        model.set_submodule(name, layer)
    if sizes.tied:  # to_empty makes memory for each
        model.head.weight = model.embedding.weight
    weights.fill(model, sizes, stored.tensors, found.keys)
    model.requires_grad_(False)
    return model


def _dtype(stored: dict[str, checkpoint.Stored]) -> torch.dtype:
    """The dtype of the embedding, or of any weight: scales may have another one."""
    first = [value for key, value in stored.items() if key in weights.EMBEDDINGS]
    for value in (*first, *stored.values()):
        if value.dtype in checkpoint.DTYPES:
            return checkpoint.DTYPES[value.dtype]
    return torch.float32
