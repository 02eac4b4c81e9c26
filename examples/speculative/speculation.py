"""Speculative decoding: a draft proposes tokens, and the target checks all of them in one pass.

A pass of a decoder over a few tokens takes hardly longer than over one, because its time is that of
reading the weights. A small model, the draft, therefore guesses tokens one after another, and the
large one, the target, scores all of them in one pass. The first ones are accepted, as many as the
rule of `accept` allows, and the same scores give one token more. The rule keeps the distribution of
the target's texts (Leviathan, Kalman and Matias, "Fast inference from transformers via speculative
decoding", 2023; Chen et al., "Accelerating large language model decoding with speculative
sampling", 2023). With temperature 0 the tokens are those of the target alone, unless two logits
are as near as roundings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from weft.llm import Sampling, Texts

Proposal = tuple[list[int], torch.Tensor]
"""Tokens, and the probabilities that each was drawn with, [tokens, vocabulary]."""


class Draft(Protocol):
    """The source of tokens that the target checks."""

    def propose(self, text: Sequence[int], count: int) -> Proposal:
        """At most so many tokens that may follow a text."""
        ...


def probabilities(logits: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """The distribution of each row that `weft.ops.sample` draws from, in float32."""
    x = logits.float()
    best = torch.zeros_like(x).scatter_(-1, x.argmax(-1, keepdim=True), 1.0)
    if sampling.temperature == 0:
        return best
    if 0 < sampling.top_k < x.shape[-1]:
        x = x.masked_fill(x < x.topk(sampling.top_k).values[..., -1:], -torch.inf)
    p = (x / sampling.temperature).softmax(-1)
    if sampling.top_p < 1:
        ordered = p.sort(descending=True)
        before = ordered.values.cumsum(-1) - ordered.values
        least = ordered.values.masked_fill(before >= sampling.top_p, torch.inf).amin(-1, True)
        p = torch.where(p < least, 0.0, p)
        p = torch.where(p.sum(-1, True) > 0, p, best)
    return p / p.sum(-1, True)


def draw(p: torch.Tensor, random: torch.Generator) -> int:
    """A token, with probabilities in proportion to these."""
    return int(torch.multinomial(p, 1, generator=random))


def accept(
    tokens: Sequence[int], q: torch.Tensor, p: torch.Tensor, random: torch.Generator
) -> list[int]:
    """The first tokens of a proposal, and one token more.

    q  the probabilities that they were drawn with, [tokens, vocabulary]
    p  those of the target, [tokens + 1, vocabulary]

    A token x is accepted with probability min(1, p(x) / q(x)). The one in place of the first token
    that is not comes from max(0, p - q): so a token is drawn with probability min(p, q) and the
    rest of p, which is p.
    """
    count, kept = len(tokens), 0
    if count:
        x = torch.tensor(tokens, device=p.device)[:, None]
        ratio = (p[:count].gather(1, x) / q.gather(1, x))[:, 0]
        chance = torch.rand(count, generator=random, device=p.device)
        kept = int((chance < ratio).long().cumprod(0).sum())
    rest = p[kept]
    if kept < count:
        left = (rest - q[kept]).clamp(min=0)
        rest = torch.where(left.sum() > 0, left, rest)  # all 0: p and q differ by roundings
    return [*tokens[:kept], draw(rest, random)]


@dataclass
class Run:
    """The tokens of a text, and the work that they took.

    passes    of the target, after that over the prompt
    proposed  tokens of the draft
    accepted  those that the target kept
    """

    tokens: list[int]
    passes: int = 0
    proposed: int = 0
    accepted: int = 0

    def __str__(self) -> str:
        share = f", {self.accepted / self.proposed:.0%}" if self.proposed else ""
        return (
            f"accepted {self.accepted} of {self.proposed} proposed tokens{share}; "
            f"{len(self.tokens) / max(self.passes, 1):.2f} tokens for each pass of the target"
        )


def speculate(
    target: Texts,
    draft: Draft,
    prompt: Sequence[int],
    tokens: int,
    ahead: int,
    sampling: Sampling,
    random: torch.Generator,
    stop: Iterable[int] = (),
) -> Run:
    """Generate at most so many tokens after a prompt; a stop token is the last one.

    The target's keys and values are those of all tokens but the last, so a pass is over this one
    and the proposal.
    """
    target.shorten([0])
    target.extend([prompt[:-1]], last=True)
    text, run, ends = list(prompt), Run([]), frozenset(stop)
    while (left := tokens - len(run.tokens)) > 0:
        proposed, q = draft.propose(text, min(ahead, left - 1))
        (logits,) = target.extend([[text[-1], *proposed]])
        new = accept(proposed, q, probabilities(logits, sampling), random)
        run.passes += 1
        run.proposed += len(proposed)
        run.accepted += len(new) - 1
        ended = next((i for i, token in enumerate(new) if token in ends), None)
        new = new if ended is None else new[: ended + 1]
        run.tokens += new
        text += new
        if ended is not None:
            break
        target.shorten([len(text) - 1])
    return run
