"""Keys and values of past tokens: a row of slots for each text, or pages of a pool."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from weft.errors import ArgumentError
from weft.llm.decoder import Attend, Decoder
from weft.llm.invariance import joined, op
from weft.ops.core import library
from weft.ops.families.attention.forward import MOST_HEADS

KINDS = ("static", "paged")
PAGE = 16
"""Keys of a page, unless told otherwise."""


class Cache:
    """The keys and values of `rows` texts of at most `capacity` tokens.

    keys, values  of each layer, [pages, keys of a page, heads, size]
    table         [rows, pages of a text], int32: the pages of each text
    lengths       [rows], int32: the keys that the next step sees, its own included

    A static cache has one page for each text. A paged one has a pool: a text takes the pages that
    it may need when it begins. Page r is row r's own, so that a row without a text has one as well.
    """

    def __init__(
        self, model: Decoder, rows: int, capacity: int, kind: str, page: int, pages: int | None
    ) -> None:
        c = model.config
        self.is_paged = paged = kind == "paged"
        self.rows, self.capacity, self.heads = rows, capacity, c.heads
        self.page = page if paged else capacity
        self.most = -(-capacity // self.page)
        count = rows + (rows * self.most if pages is None else pages) if paged else rows
        self.free = list(range(count - 1, rows - 1, -1))
        shape = (count, self.page, c.kv_heads, c.head_size)
        where = {"dtype": model.dtype, "device": model.device}
        self.keys = [torch.zeros(shape, **where) for _ in range(c.depth)]
        self.values = [torch.zeros(shape, **where) for _ in range(c.depth)]
        own = torch.arange(rows, dtype=torch.int32, device=model.device)
        self.own = own[:, None].repeat(1, self.most)
        self.table = self.own.clone()
        self.base = own * self.page
        self.lengths = torch.ones_like(own)
        self.numbers = torch.arange(capacity, dtype=torch.int32, device=model.device)

    def begin(self, lengths: Sequence[int]) -> None:
        """Give each of the first rows pages for so many tokens; raise if there are too few."""
        self.end()
        if not self.is_paged:
            return
        wanted = [-(-n // self.page) for n in lengths]
        if sum(wanted) > len(self.free):
            raise ArgumentError(
                "weft.llm: the texts are longer than the cache",
                got=f"{sum(lengths)} tokens, {sum(wanted)} pages of {self.page}",
                allowed=f"{len(self.free)} pages",
                next="Generator(..., pages=N)",
            )
        table, taken = self.own.tolist(), iter(reversed(self.free))
        for row, count in enumerate(wanted):
            table[row][:count] = [next(taken) for _ in range(count)]
        self.table.copy_(torch.tensor(table, dtype=torch.int32))

    def end(self) -> None:
        """Take all pages back."""
        self.table.copy_(self.own)
        self.lengths.fill_(1)

    # ---- where tokens go -----------------------------------------------------------------------
    def next_slots(self, positions: torch.Tensor) -> torch.Tensor:
        """The slots of one token of each row, [rows]."""
        if not self.is_paged:
            return self.base + positions
        pages = self.table.gather(1, (positions // self.page)[:, None].long())[:, 0]
        return pages * self.page + positions % self.page

    def slots(self, rows: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """The slots of tokens at these positions of rows."""
        pages = self.table[rows.long(), (positions // self.page).long()]
        return (pages * self.page + positions % self.page).int()

    # ---- attention -----------------------------------------------------------------------------
    def of_step(self, batch_invariant: bool = False) -> Attend:
        """Attention of one new token of each row, which sees all keys of its text."""
        if self.keys[0].dtype is torch.float32:
            return self._masked(batch_invariant)
        attend = op("attention_paged", batch_invariant)
        most = self._most_texts(batch_invariant)

        def paged(i: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            by_text = (x.split(most) for x in (q.unsqueeze(2), self.table, self.lengths))
            found = [
                attend(own, self.keys[i], self.values[i], *where)
                for own, *where in zip(*by_text, strict=True)
            ]
            return joined(found)[:, :, 0]

        return paged

    def _most_texts(self, batch_invariant: bool) -> int:
        """Texts of a call of attention: invariant ones do not choose fewer parts for more texts."""
        return max(1, MOST_HEADS // self.heads) if batch_invariant else self.rows

    def _masked(self, batch_invariant: bool) -> Attend:
        """The same for float32, which kernels of pages do not take: a mask hides free slots."""
        attend = op("attention", batch_invariant)
        most = self._most_texts(batch_invariant)
        seen = (self.numbers < self.lengths[:, None])[:, None, None]

        def masked(i: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            past = (x.transpose(1, 2) for x in (self.keys[i], self.values[i]))
            by_text = (x.split(most) for x in (q.unsqueeze(2), *past, seen))
            found = [attend(*own, enable_gqa=True) for own in zip(*by_text, strict=True)]
            return joined(found)[:, :, 0]

        return masked


def of_prompts(
    lengths: Sequence[int], device: torch.device, batch_invariant: bool = False
) -> Attend:
    """Attention of whole prompts, one after another: each token sees those of its own before it."""
    if batch_invariant and len(lengths) > 1:
        return _by_prompt(lengths, device)
    starts = [0]
    for n in lengths:
        starts.append(starts[-1] + n)
    ends = torch.tensor(starts, dtype=torch.int32, device=device)
    most, attend = max(lengths), library.call("attention_varlen")

    def prompts(i: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = attend(
            q, k, v, ends, ends, most, most, is_causal=True, enable_gqa=True
        )
        return found

    return prompts


def _by_prompt(lengths: Sequence[int], device: torch.device) -> Attend:
    """The same by a call for each prompt, whose kernel does not depend on the others."""
    calls = [of_prompts([n], device) for n in lengths]

    def prompts(i: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        parts = zip(calls, *(x.split(list(lengths)) for x in (q, k, v)), strict=True)
        return joined([call(i, *own) for call, *own in parts])

    return prompts
