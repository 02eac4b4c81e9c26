"""A tiny model of bytes with random weights, which generates on a laptop."""

from __future__ import annotations

import torch

from weft.llm.config import DecoderConfig
from weft.llm.decoder import Decoder

CONFIG = DecoderConfig(
    family="llama",
    vocabulary=256,
    width=32,
    depth=2,
    heads=4,
    kv_heads=2,
    head_size=16,
    hidden=64,
    context=256,
)
STEP = 2654435761
"""An odd number near 2**32 over the golden ratio: its multiples spread over all words."""


def demo(device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32) -> Decoder:
    """Make the model; its weights are the same everywhere."""
    return spread(Decoder(CONFIG, device, dtype))


def spread(model: Decoder, deviation: float = 1.0) -> Decoder:
    """Give weights that are no norms numbers in a fixed order, computed on their device.

    They are uniform, with this deviation times one over the root of the columns.
    """
    first = 0
    for parameter in model.parameters():
        if parameter.dim() < 2:
            continue
        number = torch.arange(parameter.numel(), device=parameter.device, dtype=torch.int64)
        words = ((number + first) * STEP) % 2**32 * 40503 % 65521
        scale = 12**0.5 * deviation / parameter.shape[-1] ** 0.5
        parameter.copy_(((words / 65521 - 0.5) * scale).view(parameter.shape))
        first += parameter.numel()
    return model
