"""A text to train on, from a file or from weft's own documents, and windows of its tokens."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from weft.errors import ArgumentError
from weft.train.gpt.tokens import Tokens

PACKAGE = Path(__file__).parents[2]
DOCUMENTS = ("learn/chapters/*/chapter.md", "ladders/*/ladder.md")
"""The texts of weft that are part of the package: its course and its ladders."""
KEPT = 0.1
"""The share of a text, at its end, that is not trained on."""


@dataclass(frozen=True)
class Text:
    """A text, and where it is from."""

    content: bytes
    origin: str

    @property
    def digest(self) -> str:
        """A short name of the content."""
        return hashlib.sha256(self.content).hexdigest()[:16]


def load(path: Path | None) -> Text:
    """The text of a file; without one, weft's documents."""
    if path is None:
        files = sorted(p for pattern in DOCUMENTS for p in PACKAGE.glob(pattern))
        return Text(b"\n\n".join(p.read_bytes() for p in files), f"{len(files)} documents of weft")
    if path.is_dir():
        raise ArgumentError("a file is needed, not a folder", got=str(path))
    if not path.is_file():
        next_ = "leave --text out to train on weft's documents"
        raise ArgumentError("there is no such text", got=str(path), next=next_)
    return Text(path.read_bytes(), str(path))


class Windows:
    """The tokens of a text in the memory of a device: a part to train on, and one to test with."""

    def __init__(self, text: Text, tokens: Tokens, length: int, device: torch.device) -> None:
        every = tokens.encode(text.content)
        split = len(every) - max(int(KEPT * len(every)), length + 1)
        if split <= length:
            raise ArgumentError(
                f"{text.origin} is too short",
                got=f"{len(every)} tokens",
                allowed=f"at least {2 * (length + 1)} tokens for windows of {length}",
                next="--length, or another text",
            )
        whole = torch.from_numpy(every).to(device)
        self.training, self.test = whole[:split], whole[split:]
        self._places = torch.arange(length + 1, device=device)

    def __len__(self) -> int:
        return len(self.training) + len(self.test)

    def drawn(self, seed: int, step: int, count: int) -> torch.Tensor:
        """Windows [count, length + 1] of the training part; a step has the same ones every time."""
        last = len(self.training) - len(self._places) + 1
        starts = np.random.default_rng([seed, step]).integers(last, size=count)
        return self._at(self.training, starts)

    def spread(self, count: int) -> torch.Tensor:
        """Windows of the test part, evenly spread."""
        last = len(self.test) - len(self._places)
        return self._at(self.test, np.linspace(0, last, count).astype(np.int64))

    def _at(
        self, part: torch.Tensor, starts: np.ndarray[tuple[int], np.dtype[np.int64]]
    ) -> torch.Tensor:
        first = torch.from_numpy(starts).to(part.device)
        return part[first[:, None] + self._places]
