"""Draws the steps of attention on a ring: the scores of each step, and a bar for each rank."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from importlib.resources import files

import jinja2

from weft.report.words import Block, Table
from weft.values.time.ring import RingSchedule, RingStep

COLOURS = ("#4269d0", "#efb118", "#3ca951", "#ff725c", "#a463f2", "#97bbf5", "#9c6b4e", "#6cc5b0")
"""Ranks; they repeat after eight."""
SIDE, GAP, TOP, LEFT, STEP = 132, 22, 46, 64, 64
"""Pixels: the side of a matrix of scores, the gap between two, the margins, a rank's name."""
BAR, ROW, LEAST = 14, 20, 400
"""Pixels: the height of a rank's bar and of its row, and the least width."""
ACROSS = 4
"""Matrices beside each other at most."""
STYLE = """
svg { --ink: #1f2328; --soft: #59636e; --empty: #eaeef2; --later: #d1d9e0; }
@media (prefers-color-scheme: dark) { svg { --ink: #e6edf3; --soft: #9198a1; --empty: #21262d;
  --later: #3d444d; } }
text { font: 12px system-ui, sans-serif; fill: var(--ink); } .soft { fill: var(--soft); }
.end { text-anchor: end; } .empty { fill: var(--empty); } .later { fill: var(--later); }
"""


def view(found: RingSchedule) -> Iterator[Block]:
    """A row for each step, and the totals."""
    yield title(found), "bold"
    columns = ("step", *(f"rank {n}" for n in range(found.world)), "sent")
    rows = [
        [str(n), *(_cell(one) for one in step), amount(sum(one.sent for one in step))]
        for n, step in enumerate(found.steps)
    ]
    yield Table(columns, rows, columns)
    yield f"{found.idle:.1%} idle, {amount(found.sent)} sent in the forward pass", ""


def title(found: RingSchedule) -> str:
    """The name of a schedule."""
    mask = "causal" if found.causal else "no mask"
    return f"{found.layout}, {found.world} ranks, {found.length:,} tokens, {mask}"


def amount(count: int) -> str:
    """Bytes in the unit that people read."""
    units = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
    return next((f"{count / n:.3g} {unit}" for n, unit in units if count >= n), f"{count} B")


def _cell(one: RingStep) -> str:
    """The scores of a rank in a step, and whose keys they are of."""
    return f"{one.scores:,} of {one.source}" if one.scores else "idle"


def page(found: RingSchedule) -> str:
    """One HTML page without scripts: the picture, and the numbers of each step."""
    text = files("weft.report").joinpath("ring.html").read_text("utf-8")
    table = next(block for block in view(found) if isinstance(block, Table))
    template = jinja2.Template(text, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    made: str = template.render(
        title=title(found),
        idle=f"{found.idle:.1%}",
        sent=amount(found.sent),
        picture=svg(found),
        columns=table.columns,
        rows=table.rows,
    )
    return made


def svg(found: RingSchedule) -> str:
    """The picture alone: a matrix of scores for each step, and bars of work for each rank."""
    across = min(ACROSS, len(found.steps))
    lines = -(-len(found.steps) // across)
    wide = max(LEFT + across * (SIDE + GAP), LEAST)
    below = TOP + lines * (SIDE + 2 * GAP) + 6
    high = below + 28 + found.world * ROW
    parts = [_text(0, 16, title(found)), _legend(found)]
    for n, step in enumerate(found.steps):
        x, y = LEFT + n % across * (SIDE + GAP), TOP + n // across * (SIDE + 2 * GAP) + GAP
        parts.append(_text(x, y - 6, f"step {n}: {amount(sum(s.sent for s in step))} sent", "soft"))
        parts.append(f'<g transform="translate({x} {y})">{_matrix(found, n)}</g>')
    parts.append(_text(0, below + 12, "scores of each rank, step by step; grey: idle", "soft"))
    parts += _bars(found, below + 22, wide - LEFT - GAP)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" role="img">'
    return f"{head}<style>{STYLE}</style>{''.join(parts)}</svg>\n"


def _legend(found: RingSchedule) -> str:
    """The colours of ranks, and what the axes are."""
    keys = [
        f'<rect x="{LEFT + STEP * n}" y="26" width="10" height="10" fill="{colour(n)}"/>'
        + _text(LEFT + 15 + STEP * n, 35, f"rank {n}", "soft")
        for n in range(min(found.world, len(COLOURS)))
    ]
    down = [
        _text(LEFT - 8, TOP + GAP + 12, "query", "soft end"),
        _text(LEFT - 8, TOP + GAP + 28, "by key", "soft end"),
    ]
    return "".join((*keys, *down))


def colour(rank: int) -> str:
    """The colour of a rank."""
    return COLOURS[rank % len(COLOURS)]


def _matrix(found: RingSchedule, number: int) -> str:
    """Scores of all queries by all keys, by position: those of a step in the colours of ranks."""
    size = SIDE / found.grid
    made = [f'<rect class="empty" width="{SIDE}" height="{SIDE}"/>', _seen(found, size)]
    for one in found.steps[number]:
        made += (
            f'<rect fill="{colour(one.rank)}" x="{k * size:.2f}" y="{q * size:.2f}" '
            f'width="{run * size + 0.05:.2f}" height="{size + 0.05:.2f}"/>'
            for q, k, run in one.cells
        )
    return "".join(made)


def _seen(found: RingSchedule, size: float) -> str:
    """The scores of all steps: a square, or the stairs of a causal mask."""
    if not found.causal:
        return f'<rect class="later" width="{SIDE}" height="{SIDE}"/>'
    stairs = "".join(f"h{size:.3f}v{size:.3f}" for _ in range(found.grid))
    return f'<path class="later" d="M0 0{stairs}H0z"/>'


def _bars(found: RingSchedule, top: int, wide: int) -> Iterator[str]:
    """A row for each rank: its work in each step, as a share of the time of all steps."""
    total = sum(found.longest)
    for rank in range(found.world):
        y = top + rank * ROW
        yield _text(LEFT - 8, y + 11, f"rank {rank}", "soft end")
        x = float(LEFT)
        for step, longest in zip(found.steps, found.longest, strict=True):
            room, used = wide * longest / total, wide * step[rank].scores / total
            yield f'<rect class="later" x="{x:.1f}" y="{y}" width="{room:.1f}" height="{BAR}"/>'
            if used:
                yield (
                    f'<rect fill="{colour(rank)}" x="{x:.1f}" y="{y}" '
                    f'width="{max(used - 1.5, 0.5):.1f}" height="{BAR}"/>'
                )
            x += room


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" class="{kind}">{escape(text)}</text>'
