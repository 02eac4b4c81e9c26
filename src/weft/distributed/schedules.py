"""Plan the steps of a ring without running them: work, idle share and bytes of each layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from weft.distributed.blocks import Ring, check_layout, parts_of
from weft.errors import ArgumentError
from weft.values.time.ring import RingSchedule, RingStep

DRAWN = 4
"""Rows of a shard in the picture at most."""


class Schedule(RingSchedule):
    """The steps of a ring; printed as a table.

    layout     contiguous, striped or zigzag
    world      the number of ranks
    steps      each with a `RingStep` for every rank: source, scores, bytes sent

    >>> made = weft.distributed.schedule("contiguous", 2, length=4)
    >>> print([[one.scores for one in step] for step in made.steps])
    [[3, 3], [0, 4]]
    """

    def __str__(self) -> str:
        from weft.report import words
        from weft.report.ring.page import view

        return words.plain(view(self))

    def save(self, path: str | Path) -> None:
        """Write a page that shows which rank computes what in each step; SVG for a name .svg."""
        from weft.report.files import write
        from weft.report.ring.page import page, svg

        write(path, svg(self) if str(path).endswith(".svg") else page(self))

    def _repr_html_(self) -> str:
        """The notebook's view: the page in an iframe."""
        from weft.report import cells
        from weft.report.ring.page import page

        return cells.frame(page(self), "weft.distributed.schedule")


def schedule(
    layout: str, world: int, causal: bool = True, *, length: int | None = None,
    token_bytes: int = 4096,
) -> Schedule:  # fmt: skip
    """Plan the forward pass of ring attention."""
    check_layout("schedule", layout)
    for name, number in (("world", world), ("token_bytes", token_bytes)):
        if not isinstance(number, int) or number < 1:
            raise ArgumentError(
                f"weft.distributed.schedule: {name} is {number!r}, expected an integer from 1 on"
            )
    parts = parts_of(layout, world)
    tokens = 4 * world if length is None else length
    if not isinstance(tokens, int) or tokens < 1 or tokens % parts:
        raise ArgumentError(
            f"weft.distributed.schedule: length is {tokens!r}, expected a multiple of {parts}",
            next=f"length={parts}",
        )
    ring = Ring(layout, world, tokens // world, bool(causal))
    drawn = ring._replace(rows=min(ring.rows, DRAWN))
    steps = tuple(
        tuple(_step(ring, drawn, rank, step, token_bytes) for rank in range(world))
        for step in range(world)
    )
    return Schedule(layout, world, bool(causal), tokens, steps, drawn.rows * world)


def _step(ring: Ring, drawn: Ring, rank: int, step: int, token_bytes: int) -> RingStep:
    source = (rank - step) % ring.world
    block = ring.block(rank, source)
    sent = token_bytes * ring.rows if ring.hops(source) > step else 0
    if block is None:
        return RingStep(rank, source, (0, 0), (0, 0), False, 0, sent)
    queries, keys = (block.first_query, block.queries), (block.first_key, block.keys)
    cells = tuple(_cells(drawn, rank, source))
    return RingStep(rank, source, queries, keys, block.causal, block.scores, sent, cells)


def _cells(drawn: Ring, rank: int, source: int) -> Iterator[tuple[int, int, int]]:
    """Runs of neighbouring scores: the query, the first key, and their number."""
    block = drawn.block(rank, source)
    if block is None:
        return
    keys = drawn.positions(source)[block.first_key :][: block.keys]
    queries = drawn.positions(rank)[block.first_query :][: block.queries]
    for i, query in enumerate(queries):
        for first, run in _runs(keys[: i + 1] if block.causal else keys):
            yield query, first, run


def _runs(positions: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Runs of consecutive positions: the first one, and their number."""
    start = 0
    for i in range(1, len(positions) + 1):
        if i == len(positions) or positions[i] != positions[i - 1] + 1:
            yield positions[start], i - start
            start = i
