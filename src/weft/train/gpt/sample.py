"""Texts that a trained GPT continues."""

from __future__ import annotations

import numpy as np
import torch

from weft.errors import ArgumentError
from weft.train.gpt.settings import TextSettings
from weft.train.gpt.step import autocast
from weft.train.gpt.tokens import Tokens


def continued(
    model: torch.nn.Module,
    tokens: Tokens,
    settings: TextSettings,
    device: torch.device,
    prompt: str,
    count: int,
    temperature: float = 0.8,
) -> str:
    """A prompt and `count` tokens more, drawn by the network; a seed gives one text.

    The window has a fixed length: what follows the last token is not seen by causal attention.
    """
    if temperature <= 0:
        raise ArgumentError("the temperature must be positive", got=str(temperature))
    text = [int(t) for t in tokens.encode(prompt.encode() or b"\n")]
    random = np.random.default_rng([settings.seed, 1])
    window = torch.zeros(1, settings.length, dtype=torch.int64, device=device)
    model.eval()
    with torch.no_grad(), autocast(settings.precision, device):
        for _ in range(count):
            seen = text[-settings.length :]
            window[0, : len(seen)] = torch.tensor(seen, device=device)
            logits = model(window)[0, len(seen) - 1].float().cpu().double().numpy()
            text.append(_drawn(logits / temperature, random))
    return tokens.decode(text).decode("utf-8", "replace")


def _drawn(
    logits: np.ndarray[tuple[int], np.dtype[np.float64]], random: np.random.Generator
) -> int:
    weights = np.exp(logits - logits.max())
    return int(np.searchsorted(np.cumsum(weights), random.random() * weights.sum()))
