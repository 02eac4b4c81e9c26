"""A generated text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Generated:
    """Tokens that a model has generated.

    prompt   the tokens before them
    tokens   the new tokens
    text     of the new tokens; "" for a model whose tokens have none
    device   "cpu" stands for the simulated GPU
    rate     tokens per second after the first one; None on the simulated GPU
    stopped  True if the user ended it
    """

    model: str
    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    text: str
    device: str
    rate: float | None
    stopped: bool

    def to_dict(self) -> dict[str, Any]:
        """The value as a dict, for JSON."""
        return {**vars(self), "prompt": list(self.prompt), "tokens": list(self.tokens)}
