"""Keys and values of past tokens: a row of slots for each text, or pages of a pool."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

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
    windows       of each layer: the keys before and after its own one that a token sees; None: all

    A static cache has one page for each text. A paged one has a pool, from which texts take pages.
    Page r is row r's own, so that a row without a text has one as well.
    """

    def __init__(
        self,
        model: Decoder,
        rows: int,
        capacity: int,
        kind: str,
        page: int,
        pages: int | None,
        batch_invariant: bool = False,
    ) -> None:
        c = model.config
        self.batch_invariant = batch_invariant
        # Calls of invariant attention do not choose fewer parts of the keys for more texts.
        self.at_once = max(1, MOST_HEADS // c.heads) if batch_invariant else rows
        self.is_paged = paged = kind == "paged"
        self.rows, self.capacity = rows, capacity
        self.page = page if paged else capacity
        self.most = -(-capacity // self.page)
        count = rows + (rows * self.most if pages is None else pages) if paged else rows
        self.free = list(range(count - 1, rows - 1, -1))
        self.taken: list[list[int]] = [[] for _ in range(rows)]
        shape = (count, self.page, c.kv_heads, c.head_size)
        where = {"dtype": model.dtype, "device": model.device}
        self.keys = [torch.zeros(shape, **where) for _ in range(c.depth)]
        self.values = [torch.zeros(shape, **where) for _ in range(c.depth)]
        own = torch.arange(rows, dtype=torch.int32, device=model.device)
        self.table = own[:, None].repeat(1, self.most)
        self.base = own * self.page
        self.lengths = torch.ones_like(own)
        windows = c.windows or (0,) * c.depth
        self.windows = [(n - 1, 0) if 0 < n < capacity else None for n in windows]
        self.numbers = torch.arange(capacity, dtype=torch.int32, device=model.device)

    def begin(self, lengths: Sequence[int]) -> None:
        """Give each of the first rows pages for so many tokens; raise if there are too few."""
        self.end()
        self.resize(lengths)

    def resize(self, lengths: Sequence[int]) -> None:
        """Give each of the first rows pages for so many tokens; its first ones stay the same."""
        if not self.is_paged:
            return
        wanted = [-(-n // self.page) for n in lengths]
        wanted += [0] * (self.rows - len(wanted))
        pool = len(self.free) + sum(map(len, self.taken))
        if sum(wanted) > pool:
            raise ArgumentError(
                "weft.llm: the texts are longer than the cache",
                got=f"{sum(lengths)} tokens, {sum(wanted)} pages of {self.page}",
                allowed=f"{pool} pages",
                next="pages=N gives the cache more pages",
            )
        before = [len(pages) for pages in self.taken]
        if wanted == before:
            return
        for pages, count in zip(self.taken, wanted, strict=True):
            self.free += reversed(pages[count:])
            del pages[count:]
        for pages, count in zip(self.taken, wanted, strict=True):
            pages += [self.free.pop() for _ in range(count - len(pages))]
        table = [[*p, *[row] * (self.most - len(p))] for row, p in enumerate(self.taken)]
        self.table.copy_(torch.tensor(table, dtype=torch.int32))

    def end(self) -> None:
        """Take all pages back."""
        self.resize([])
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
        places = rows * self.most + positions // self.page
        pages = self.table.flatten().index_select(0, places)
        return (pages * self.page + positions % self.page).int()

    # ---- attention -----------------------------------------------------------------------------
    def of_step(self) -> Attend:
        """Attention of one new token of each row, which sees all keys of its text."""
        if self.keys[0].dtype is torch.float32:
            return self.of_several(self.lengths, 1)
        attend = op("attention_paged", self.batch_invariant)

        def paged(i: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            found = [
                attend(own, self.keys[i], self.values[i], *where, window=self.windows[i])
                for own, *where in self._calls(q.unsqueeze(2), self.table, self.lengths)
            ]
            return joined(found)[:, :, 0]

        return paged

    def _calls(self, *by_text: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
        """The parts of tensors of texts for each call of attention."""
        return zip(*(x.split(self.at_once) for x in by_text), strict=True)

    def of_several(
        self, lengths: torch.Tensor, count: int, places: torch.Tensor | None = None
    ) -> Attend:
        """Attention of the last `count` tokens of each row, whose keys are stored already.

        lengths  [rows], int32: the keys of each row
        places   where some rows have fewer tokens: the place of each token in [rows * count];
                 those of a row are its last ones. None: all places have tokens
        """
        attend = self._attend_several(lengths, count)

        def several(i: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            if places is not None:
                q = q.new_zeros(self.rows * count, *q.shape[1:]).index_copy(0, places, q)
            found = attend(i, q.unflatten(0, (self.rows, count)).transpose(1, 2))
            found = found.transpose(1, 2).flatten(0, 1)
            return found if places is None else found.index_select(0, places)

        return several

    def _attend_several(
        self, lengths: torch.Tensor, count: int
    ) -> Callable[[int, torch.Tensor], torch.Tensor]:
        """(layer, queries [rows, heads, count, size]) -> the result.

        Kernels of pages do not take float32: there a mask hides free slots.
        """
        if self.keys[0].dtype is not torch.float32:
            paged = library.call("attention_paged")
            return lambda i, q: paged(
                q, self.keys[i], self.values[i], self.table, lengths, is_causal=True,
                window=self.windows[i],
            )  # fmt: skip
        attend = op("attention", self.batch_invariant)
        after = torch.arange(count - 1, -1, -1, device=lengths.device)
        masks = self._masks(lengths[:, None] - after)

        def masked(i: int, q: torch.Tensor) -> torch.Tensor:
            past = (x.transpose(1, 2) for x in (self.keys[i], self.values[i]))
            return joined([attend(*x, enable_gqa=True) for x in self._calls(q, *past, masks[i])])

        return masked

    def _masks(self, ends: torch.Tensor) -> list[torch.Tensor]:
        """The keys that tokens see in each layer, as [rows, 1, tokens, keys].

        ends  [rows, tokens]: the keys up to each token, its own included
        """
        ends = ends[:, None, :, None]
        made: dict[tuple[int, int] | None, torch.Tensor] = {None: self.numbers < ends}
        for window in {w for w in self.windows if w is not None}:
            made[window] = made[None] & (self.numbers >= ends - window[0] - 1)
        return [made[window] for window in self.windows]

    def of_prompts(self, lengths: Sequence[int]) -> Attend:
        """Attention of whole prompts, one after another: tokens see those before them."""
        if self.batch_invariant and len(lengths) > 1:
            return self._by_prompt(lengths)
        starts = [0]
        for n in lengths:
            starts.append(starts[-1] + n)
        ends = torch.tensor(starts, dtype=torch.int32, device=self.table.device)
        most, attend = max(lengths), library.call("attention_varlen")

        def prompts(i: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = attend(
                q, k, v, ends, ends, most, most, is_causal=True, enable_gqa=True,
                window=self.windows[i],
            )  # fmt: skip
            return found

        return prompts

    def _by_prompt(self, lengths: Sequence[int]) -> Attend:
        """The same by a call for each prompt, whose kernel does not depend on the others."""
        calls = [self.of_prompts([n]) for n in lengths]

        def prompts(i: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            parts = zip(calls, *(x.split(list(lengths)) for x in (q, k, v)), strict=True)
            return joined([call(i, *own) for call, *own in parts])

        return prompts
