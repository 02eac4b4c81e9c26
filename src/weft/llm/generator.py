"""Generate tokens: one pass over the prompts, then one token of each text at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

import torch

from weft.errors import ArgumentError
from weft.llm import cache as caches
from weft.llm.cache import PAGE, Cache
from weft.llm.decoder import Attend, Decoder, Pass, angles, product
from weft.llm.fused.step import FusedStep
from weft.llm.sampling import Sampling, Settings
from weft.ops.core import library
from weft.ops.graph import graph

Prompt = Sequence[int]
GREEDY = Sampling()


class Generator:
    """Generates tokens with a model, for a number of texts at a time.

    model     a decoder, as `weft.llm.load` returns it
    rows      texts at a time, at the most
    capacity  tokens of a text, with its prompt; by default the most that the model takes
    cache     "static": slots for all tokens of each text; "paged": pages of a pool
    page      slots of a page
    pages     pages of the pool; by default as many as all texts can need
    batch_invariant  the tokens of a text do not depend on the other texts, nor on `rows`

    On a GPU a step is one CUDA graph. `generate` returns the tokens that follow each prompt,
    `stream` yields them as they come.

    >>> from weft.llm.demo import demo
    >>> generator = weft.llm.Generator(demo(), rows=2, capacity=8)
    >>> print([len(tokens) for tokens in generator.generate([[1, 2, 3], [7]], tokens=2)])
    [2, 2]
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
        batch_invariant: bool = False,
    ) -> None:
        c = model.config
        capacity = c.context if capacity is None else capacity
        check_cache("weft.llm.Generator", model, rows, capacity, cache, page, pages)
        self.model, self.rows, self.capacity = model, rows, capacity
        self.batch_invariant = batch_invariant
        self.cache = Cache(model, rows, capacity, cache, page, pages, batch_invariant)
        rotary = (None, None) if c.is_gpt2 else angles(c, capacity, model.device)
        self._rotary: tuple[torch.Tensor | None, torch.Tensor | None] = rotary
        where = {"device": model.device}
        self._tokens = torch.zeros(rows, dtype=torch.int64, **where)
        self._positions = torch.zeros(rows, dtype=torch.int32, **where)
        self._active = torch.zeros(rows, dtype=torch.int32, **where)
        self._settings = Settings(rows, model.device)
        self._fused: FusedStep | None = None
        self._graphed = graph(self._step, copy=False)
        self._memory: Sequence[object] = ()
        self._stream_number = 0

    def generate(
        self,
        prompts: Sequence[Prompt],
        tokens: int | None = None,
        sampling: Sampling | Sequence[Sampling] = GREEDY,
        stop: Iterable[int] | None = None,
    ) -> list[list[int]]:
        """The tokens that follow each prompt; a token that ended a text is the last one."""
        made: list[list[int]] = [[] for _ in prompts]
        for step in self.stream(prompts, tokens, sampling, stop):
            for row, token in enumerate(step):
                if token is not None:
                    made[row].append(token)
        return made

    def stream(
        self,
        prompts: Sequence[Prompt],
        tokens: int | None = None,
        sampling: Sampling | Sequence[Sampling] = GREEDY,
        stop: Iterable[int] | None = None,
    ) -> Iterator[list[int | None]]:
        """Yield the next token of each prompt as it comes; None for a text that has ended.

        The texts of an earlier call end when a later one begins.
        """
        limits = self._limits(prompts, tokens)
        ends = frozenset(self.model.config.stop if stop is None else stop)
        chosen = _per_row(sampling, len(prompts))
        return self._stream(prompts, limits, chosen, ends)

    def _stream(
        self,
        prompts: Sequence[Prompt],
        limits: Sequence[int],
        sampling: Sequence[Sampling],
        ends: frozenset[int],
    ) -> Iterator[list[int | None]]:
        self._stream_number = own = self._stream_number + 1
        self._settings.set(sampling)
        self._follow_model()
        self.cache.begin([len(p) + n for p, n in zip(prompts, limits, strict=True)])
        made, open_rows = 0, {row for row, n in enumerate(limits) if n}
        try:
            while open_rows:
                self._check_stream(own)
                with torch.no_grad():
                    drawn = self._graphed() if made else self._prefill(prompts, limits)
                found = drawn.tolist()
                step = [found[row] if row in open_rows else None for row in range(len(prompts))]
                made += 1
                closed = {r for r in open_rows if found[r] in ends or made == limits[r]}
                open_rows -= closed
                if closed and open_rows:
                    self._active[sorted(closed)] = 0
                yield step
        finally:
            if own == self._stream_number:
                self._active.zero_()
                self.cache.end()

    def _follow_model(self) -> None:
        """Plan the step anew if tensors of the model are others: it has their addresses."""
        memory = self.model.memory()
        if memory != self._memory:
            self._memory = memory
            fused = None if self.batch_invariant else FusedStep.of
            self._fused = fused and fused(self.model, self.cache, *self._rotary)
            self._graphed = graph(self._step, copy=False)

    # ---- passes --------------------------------------------------------------------------------
    def _pass(self, positions: torch.Tensor, slots: torch.Tensor, attend: Attend) -> Pass:
        memory = self.cache.keys, self.cache.values
        return Pass(positions, slots, *memory, *self._rotary, attend, self.batch_invariant)

    def _prefill(self, prompts: Sequence[Prompt], limits: Sequence[int]) -> torch.Tensor:
        """Run all prompts, one after another in one tensor; draw the first token of each."""
        lengths, device = [len(p) for p in prompts], self.model.device

        def numbers(values: Iterable[int], dtype: torch.dtype = torch.int32) -> torch.Tensor:
            return torch.tensor(list(values), dtype=dtype, device=device)

        tokens = numbers((t for p in prompts for t in p), torch.int64)
        positions = numbers(i for n in lengths for i in range(n))
        rows = numbers(row for row, n in enumerate(lengths) for _ in range(n))
        attend = self.cache.of_prompts(lengths)
        now = self._pass(positions, self.cache.slots(rows, positions), attend)
        last = numbers(torch.tensor(lengths).cumsum(0).sub(1).tolist(), torch.int64)
        hidden = self.model(tokens, now)[last]
        # Rows without a text see one key, at position 0 of a page of their own.
        rest = self.rows - len(prompts)
        # A text that gets no token may fill its row: there is no slot for the next one.
        self._active.copy_(numbers([int(n > 0) for n in limits] + [0] * rest))
        self._positions.copy_(numbers([n - 1 for n in lengths] + [0] * rest))
        self.cache.lengths.copy_(self._positions + 1)
        self._tokens.zero_()
        logits = product(self.model.head, hidden, self.batch_invariant)
        drawn = self._draw(logits, len(prompts))
        self._advance(drawn, len(prompts))
        return drawn

    def _step(self) -> torch.Tensor:
        """One token of every row; all that changes from step to step is in tensors."""
        drawn = self._draw(self._step_logits(), self.rows)
        self._advance(drawn, self.rows)
        return drawn

    def _step_logits(self) -> torch.Tensor:
        """The logits of the next tokens: in one launch where its kernel takes the model."""
        if self._fused is not None:
            return self._fused(self._tokens, self._positions)
        slots = self.cache.next_slots(self._positions)
        now = self._pass(self._positions, slots, self.cache.of_step())
        hidden = self.model(self._tokens, now)
        return product(self.model.head, hidden, self.batch_invariant)

    def _draw(self, logits: torch.Tensor, count: int) -> torch.Tensor:
        settings = (s[:count] for s in (*self._settings.tensors, self._positions))
        drawn: torch.Tensor = library.call("sample")(logits, *settings)
        return drawn

    def _advance(self, drawn: torch.Tensor, count: int) -> None:
        self._tokens[:count].copy_(drawn)
        self._positions.add_(self._active)
        self.cache.lengths.add_(self._active)

    # ---- checks --------------------------------------------------------------------------------
    def _limits(self, prompts: Sequence[Prompt], tokens: int | None) -> list[int]:
        """The most tokens of each text; raise for prompts that do not fit."""
        if not 0 < len(prompts) <= self.rows:
            raise ArgumentError(
                "weft.llm.Generator: the number of prompts does not fit",
                got=str(len(prompts)),
                allowed=f"1 to {self.rows}",
                next="Generator(model, rows=N) has room for N texts",
            )
        if tokens is not None and tokens < 0:
            raise ArgumentError(f"weft.llm.Generator: tokens must be at least 0, got {tokens}")
        for number, prompt in enumerate(prompts):
            self._check_prompt(number, prompt, 0 if tokens is None else tokens)
        return [self.capacity - len(p) if tokens is None else tokens for p in prompts]

    def _check_stream(self, own: int) -> None:
        if own != self._stream_number:
            raise ArgumentError(
                "weft.llm.Generator: a later call has taken the cache of these texts",
                next="finish a stream before the next one, or make two Generators",
            )

    def _check_prompt(self, number: int, prompt: Prompt, tokens: int) -> None:
        vocabulary = self.model.config.vocabulary
        wrong = [t for t in prompt if type(t) is not int or not 0 <= t < vocabulary]
        if wrong or not len(prompt):
            raise ArgumentError(
                f"weft.llm.Generator: prompt {number} has no tokens of this model",
                got=f"token {wrong[0]!r}" if wrong else "no tokens",
                allowed=f"at least one integer from 0 to {vocabulary - 1}",
            )
        if len(prompt) + tokens > self.capacity:
            raise ArgumentError(
                f"weft.llm.Generator: prompt {number} and its tokens are longer than the cache",
                got=f"{len(prompt)} + {tokens} tokens",
                allowed=f"{self.capacity} in all",
                next="ask for fewer tokens, or make the Generator with a larger capacity",
            )


def _per_row(sampling: Sampling | Sequence[Sampling], count: int) -> list[Sampling]:
    """A setting for each prompt; one for all draws from seeds that follow each other."""
    if isinstance(sampling, Sampling):
        return [dataclasses.replace(sampling, seed=sampling.seed + i) for i in range(count)]
    if len(sampling) != count:
        raise ArgumentError(
            "weft.llm.Generator: there must be one Sampling, or one for each prompt",
            got=f"{len(sampling)} for {count} prompts",
        )
    return list(sampling)


def check_cache(
    who: str, model: Decoder, rows: int, capacity: int, cache: str, page: int, pages: int | None
) -> None:
    """Raise for a cache that cannot be; `who` begins the message."""
    if cache not in caches.KINDS:
        raise ArgumentError(
            f"{who}: there is no such cache",
            got=repr(cache),
            allowed=", ".join(caches.KINDS),
        )
    if cache == "paged" and model.dtype is torch.float32:
        raise ArgumentError(
            f"{who}: a paged cache takes float16 and bfloat16",
            got=f"a model of {model.dtype}",
            next="cache='static', or load(folder, dtype=torch.bfloat16)",
        )
    numbers = {"rows": rows, "page": page, "pages": 1 if pages is None else pages}
    if wrong := {n: v for n, v in numbers.items() if v < 1}:
        raise ArgumentError(
            f"{who}: sizes must be at least 1",
            got=", ".join(f"{n}={v}" for n, v in wrong.items()),
        )
    if not 0 < capacity <= model.config.context:
        raise ArgumentError(
            f"{who}: the capacity does not fit the model",
            got=str(capacity),
            allowed=f"1 to {model.config.context}, the positions of the model",
        )
