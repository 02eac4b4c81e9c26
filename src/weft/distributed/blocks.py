"""Say which queries and keys a rank multiplies in a step of the ring.

Keys of rank `source` visit rank `source + n` in step n. In every layout a rank then needs one
rectangle or one triangle of scores, so that a step is one call of attention without a mask tensor.
"""

from __future__ import annotations

import functools
import itertools
from typing import NamedTuple

from weft.errors import ArgumentError

LAYOUTS = ("contiguous", "striped", "zigzag")


def check_layout(name: str, layout: object, where: str = "") -> None:
    """Raise ArgumentError for an unknown layout; `where` is the rank."""
    if layout not in LAYOUTS:
        raise ArgumentError(
            f"weft.distributed.{name}: there is no layout {layout!r}",
            where=where,
            allowed=", ".join(LAYOUTS),
        )


def parts_of(layout: str, world: int) -> int:
    """The number of equal parts that a layout divides a sequence into."""
    return 2 * world if layout == "zigzag" and world > 1 else world


class Block(NamedTuple):
    """A rectangle of scores, in rows of the shards; `causal`: the triangle in it.

    starts  the first rows of packed sequences and the number of all rows, for the block of a
            rank's own keys; no others see each other
    """

    first_query: int
    queries: int
    first_key: int
    keys: int
    causal: bool = False
    starts: tuple[int, ...] = ()

    @property
    def scores(self) -> int:
        """Scores that are computed."""
        if self.starts:
            lengths = [b - a for a, b in itertools.pairwise(self.starts)]
            return sum(n * (n + 1) // 2 if self.causal else n * n for n in lengths)
        if self.causal:
            return self.queries * (self.queries + 1) // 2
        return self.queries * self.keys


class Ring(NamedTuple):
    """A sequence on the ranks of a ring.

    rows    of a shard
    starts  of packed sequences, of all ranks, and the number of all rows; empty: one sequence
    """

    layout: str
    world: int
    rows: int
    causal: bool
    starts: tuple[int, ...] = ()

    def block(self, rank: int, source: int) -> Block | None:
        """The scores of a rank's queries with the keys of rank `source`; None: all are hidden."""
        if self.starts:
            return self._packed(rank, source)
        whole = Block(0, self.rows, 0, self.rows)
        if not self.causal:
            return whole
        if rank == source:
            return whole._replace(causal=True)
        return _CAUSAL[self.layout](self.rows, rank > source)

    def positions(self, rank: int) -> tuple[int, ...]:
        """The positions of a rank's tokens in the sequence, in the order of its shard."""
        n, world = self.rows, self.world
        if self.layout == "striped":
            return tuple(range(rank, n * world, world))
        if self.layout == "contiguous" or world == 1:
            return tuple(range(rank * n, (rank + 1) * n))
        half, last = n // 2, 2 * world - 1 - rank
        return (*range(rank * half, (rank + 1) * half), *range(last * half, (last + 1) * half))

    @functools.lru_cache(maxsize=4096)  # noqa: B019  the key is a small value
    def hops(self, source: int) -> int:
        """Ranks that the keys of `source` visit: up to the last one that needs them."""
        steps = range(self.world - 1, 0, -1)
        return next((n for n in steps if self.block((source + n) % self.world, source)), 0)

    def _packed(self, rank: int, source: int) -> Block | None:
        """Two shards share at most one sequence, which fills what is between them."""
        n, low, high = self.rows, min(rank, source), max(rank, source)
        if rank == source:
            inside = [s - rank * n for s in self.starts if rank * n < s < (rank + 1) * n]
            return Block(0, n, 0, n, self.causal, (0, *dict.fromkeys(inside), n))
        if self.causal and source > rank:
            return None
        for a, b in itertools.pairwise(self.starts):
            if a < (low + 1) * n and b > high * n:
                first = max(a - low * n, 0)
                count = min(b - high * n, n)
                if source < rank:
                    return Block(0, count, first, n - first)
                return Block(first, n - first, 0, count)
        return None


def _contiguous(rows: int, later: bool) -> Block | None:
    """Ranks with earlier keys are seen whole."""
    return Block(0, rows, 0, rows) if later else None


def _striped(rows: int, later: bool) -> Block | None:
    """Row i sees rows up to i of earlier stripes, and those before i of later ones."""
    if later:
        return Block(0, rows, 0, rows, causal=True)
    return Block(1, rows - 1, 0, rows - 1, causal=True) if rows > 1 else None


def _zigzag(rows: int, later: bool) -> Block | None:
    """A rank has chunks n and 2 world - 1 - n: half of the rows of one side see the other side."""
    half = rows // 2
    return Block(0, rows, 0, half) if later else Block(half, half, 0, rows)


_CAUSAL = {"contiguous": _contiguous, "striped": _striped, "zigzag": _zigzag}
