"""Texts that grow by several tokens at a time, with the logits of each, and shrink again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from weft.errors import ArgumentError
from weft.llm.cache import PAGE, Cache
from weft.llm.decoder import Attend, Decoder, Pass, angles, product
from weft.llm.generator import check_cache
from weft.ops.graph import graph

WHO = "weft.llm.Texts"
GRAPHED = 16
"""The most tokens of a text in a pass that is a CUDA graph: the host's time counts in few."""


class Texts:
    """Texts of a model whose keys and values are kept; `extend` scores new tokens in one pass.

    model     a decoder, as `weft.llm.load` returns it
    rows      the number of texts, which are empty at first
    capacity  the most tokens of a text; by default the most that the model takes
    cache     "static": slots for all tokens of each text; "paged": pages of a pool
    page      slots of a page
    pages     pages of the pool; by default as many as all texts can need

    On a GPU a pass of few tokens, as many of each text, is one CUDA graph.

    >>> from weft.llm.demo import demo
    >>> texts = weft.llm.Texts(demo(), rows=2, capacity=8)
    >>> first, second = texts.extend([[1, 2, 3], [7]])
    >>> print(list(first.shape), list(second.shape), texts.lengths)
    [3, 256] [1, 256] (3, 1)
    >>> texts.shorten([2, 1])
    >>> again, _ = texts.extend([[3], []])  # the logits after 1, 2, 3 once more
    >>> print(bool((again[0] - first[2]).abs().max() < 1e-4), texts.lengths)
    True (3, 1)
    """

    def __init__(
        self,
        model: Decoder,
        *,
        rows: int = 1,
        capacity: int | None = None,
        cache: str = "static",
        page: int = PAGE,
        pages: int | None = None,
    ) -> None:
        c = model.config
        capacity = c.context if capacity is None else capacity
        check_cache(WHO, model, rows, capacity, cache, page, pages)
        self.model, self.rows, self.capacity = model, rows, capacity
        self._cache = Cache(model, rows, capacity, cache, page, pages)
        rotary = (None, None) if c.is_gpt2 else angles(c, capacity, model.device)
        self._rotary: tuple[torch.Tensor | None, torch.Tensor | None] = rotary
        self._lengths = [0] * rows
        self._memory: Sequence[object] = ()

    @property
    def lengths(self) -> tuple[int, ...]:
        """The tokens of each text."""
        return tuple(self._lengths)

    def extend(
        self, tokens: Sequence[Sequence[int]], last: bool = False
    ) -> tuple[torch.Tensor, ...]:
        """Add tokens to the first texts; return the logits after each, [tokens, vocabulary].

        tokens  those of each text; none leave it as it is
        last    return the logits after the last token of each text alone
        """
        self._check(tokens)
        new = [*tokens, *[()] * (self.rows - len(tokens))]
        counts = [len(t) for t in new]
        after = [n + c for n, c in zip(self._lengths, counts, strict=True)]
        self._cache.resize(after)
        with torch.no_grad():
            logits = self._run(new, counts, after, last)
        self._lengths = after
        made = [min(n, 1) for n in counts] if last else counts
        parts: tuple[torch.Tensor, ...] = logits.split(made[: len(tokens)])
        return parts

    def shorten(self, lengths: Sequence[int]) -> None:
        """Drop the last tokens of texts, so that the first ones have these lengths."""
        wanted = [*lengths, *self._lengths[len(lengths) :]]
        pairs = zip(wanted, self._lengths, strict=False)
        if len(wanted) > self.rows or any(not 0 <= n <= now for n, now in pairs):
            raise ArgumentError(
                f"{WHO}: texts cannot be shortened to these lengths",
                got=", ".join(map(str, lengths)),
                allowed=f"0 to the tokens of each text: {', '.join(map(str, self._lengths))}",
            )
        self._lengths = wanted
        self._cache.resize(wanted)

    # ---- passes --------------------------------------------------------------------------------
    def _run(
        self, new: Sequence[Sequence[int]], counts: list[int], after: list[int], last: bool
    ) -> torch.Tensor:
        """The logits of all new tokens, one text after another."""
        if not any(counts):
            width = self.model.config.vocabulary
            return torch.empty((0, width), dtype=self.model.dtype, device=self.model.device)
        tokens = self._numbers((t for row in new for t in row), torch.int64)
        rows = self._numbers(row for row, n in enumerate(counts) for _ in range(n))
        starts = zip(self._lengths, after, strict=True)
        positions = self._numbers(i for start, end in starts for i in range(start, end))
        wanted = _ends(counts) if last and max(counts) > 1 else None
        picked = None if wanted is None else self._numbers(wanted, torch.int64)
        if not any(n for n, count in zip(self._lengths, counts, strict=True) if count):
            self._follow_model()
            attend = self._cache.of_prompts([n for n in counts if n])
            return self._pass(tokens, rows, positions, attend, picked)
        most = max(counts)
        places = None
        if min(counts) < most:
            padded = (row * most + most - n + i for row, n in enumerate(counts) for i in range(n))
            places = self._numbers(padded, torch.int64)
        # A text without new tokens has places, too, whose results are not used.
        seen = self._numbers(n if c else 1 for n, c in zip(after, counts, strict=True))
        step = self._graphed if places is None and most <= GRAPHED else self._continue
        logits: torch.Tensor = step(tokens, rows, positions, seen, most, places, picked)
        return logits

    def _continue(
        self,
        tokens: torch.Tensor,
        rows: torch.Tensor,
        positions: torch.Tensor,
        lengths: torch.Tensor,
        most: int,
        places: torch.Tensor | None,
        picked: torch.Tensor | None,
    ) -> torch.Tensor:
        """A pass over at most so many tokens of each text, which see all before them."""
        attend = self._cache.of_several(lengths, most, places)
        return self._pass(tokens, rows, positions, attend, picked)

    def _pass(
        self,
        tokens: torch.Tensor,
        rows: torch.Tensor,
        positions: torch.Tensor,
        attend: Attend,
        picked: torch.Tensor | None,
    ) -> torch.Tensor:
        slots = self._cache.slots(rows, positions)
        now = Pass(positions, slots, self._cache.keys, self._cache.values, *self._rotary, attend)
        hidden = self.model(tokens, now)
        if picked is not None:
            hidden = hidden.index_select(0, picked)
        return product(self.model.head, hidden)

    def _follow_model(self) -> None:
        """Capture passes anew if tensors of the model are others: graphs have their addresses."""
        memory = self.model.memory()
        if memory != self._memory:
            self._memory = memory
            self._graphed = graph(self._continue, most=2 * GRAPHED)

    def _numbers(self, values: Iterable[int], dtype: torch.dtype = torch.int32) -> torch.Tensor:
        return torch.tensor(list(values), dtype=dtype, device=self.model.device)

    # ---- checks --------------------------------------------------------------------------------
    def _check(self, tokens: Sequence[Sequence[int]]) -> None:
        if len(tokens) > self.rows:
            raise ArgumentError(
                f"{WHO}: there are tokens for more texts than rows",
                got=str(len(tokens)),
                allowed=f"at most {self.rows}",
                next="Texts(model, rows=N) has room for N texts",
            )
        vocabulary = self.model.config.vocabulary
        for number, (new, now) in enumerate(zip(tokens, self._lengths, strict=False)):
            if wrong := [t for t in new if type(t) is not int or not 0 <= t < vocabulary]:
                raise ArgumentError(
                    f"{WHO}: text {number} gets what is no token of this model",
                    got=f"token {wrong[0]!r}",
                    allowed=f"integers from 0 to {vocabulary - 1}",
                )
            if now + len(new) > self.capacity:
                raise ArgumentError(
                    f"{WHO}: text {number} becomes longer than the cache",
                    got=f"{now} + {len(new)} tokens",
                    allowed=f"{self.capacity} in all",
                    next="shorten the text, or make Texts with a larger capacity",
                )


def _ends(counts: Sequence[int]) -> list[int]:
    """The place of the last token of each text that has some, among all tokens."""
    ends, total = [], 0
    for n in counts:
        total += n
        if n:
            ends.append(total - 1)
    return ends
