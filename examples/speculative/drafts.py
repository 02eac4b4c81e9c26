"""Sources of proposals: a smaller model, or the text itself."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import torch
from speculation import Proposal, draw, probabilities

from weft.llm import Sampling, Texts


class ModelDraft:
    """A smaller model, which draws its tokens one by one."""

    def __init__(self, texts: Texts, sampling: Sampling, random: torch.Generator) -> None:
        self.texts, self.sampling, self.random = texts, sampling, random
        self.seen: list[int] = []

    def propose(self, text: Sequence[int], count: int) -> Proposal:
        """Draw tokens; those of the last proposal that were not accepted are forgotten."""
        same = (a == b for a, b in zip(self.seen, text[:-1], strict=False))
        self.seen = self.seen[: sum(takewhile(bool, same))]
        self.texts.shorten([len(self.seen)])
        new, made, q = list(text[len(self.seen) :]), list[int](), []
        for _ in range(count):
            (logits,) = self.texts.extend([new], last=True)
            self.seen += new
            q.append(probabilities(logits, self.sampling))
            new = [draw(q[-1][0], self.random)]
            made += new
        return made, torch.cat(q) if q else torch.empty(0)


class Lookup:
    """The tokens that followed the last ones earlier in the text, as long as these are alike."""

    def __init__(self, vocabulary: int, device: torch.device, longest: int = 3) -> None:
        self.vocabulary, self.device, self.longest = vocabulary, device, longest

    def propose(self, text: Sequence[int], count: int) -> Proposal:
        """Copy tokens; they are proposed with probability 1."""
        made = self._found(list(text), count)
        q = torch.zeros((len(made), self.vocabulary), device=self.device)
        if made:
            q[range(len(made)), made] = 1.0
        return made, q

    def _found(self, text: list[int], count: int) -> list[int]:
        for n in range(min(self.longest, len(text) - 1), 0, -1):
            for start in range(len(text) - n - 1, -1, -1):
                if text[start : start + n] == text[-n:]:
                    return text[start + n :][:count]
        return []
