"""Pages of the ladders: charts of their recorded times, and the page of `weft climb --html`."""

from __future__ import annotations

from collections.abc import Iterator

import ladder_tables
from charts import Bar, bars

from weft.climbing import ladder
from weft.climbing.records import Climb
from weft.report.climb_page import page
from weft.report.words import duration
from weft.values.climb import Time

LONGEST = 21
"""Characters of a name that fit beside a bar."""


def recorded() -> list[Climb]:
    """The newest timed climb of each ladder."""
    return list(ladder_tables.timed().values())


def files() -> dict[str, str | bytes]:
    """The overview, and for each ladder its charts and the page of its climb."""
    made: dict[str, str | bytes] = {"ladders/index.md": _overview()}
    for climb in recorded():
        texts = ladder.find(climb.ladder).texts
        made[f"ladders/{climb.ladder}_climb.html"] = page(texts, climb)
        for place, (_, chart) in enumerate(_charts(climb)):
            made[f"ladders/{climb.ladder}_{place}.svg"] = chart
    return made


def with_charts(text: str, climb: Climb) -> str:
    """The text of a ladder, with its charts below the title."""
    title, _, rest = text.partition("\n")
    shown = "\n\n".join(
        f"![Times on {case}]({climb.ladder}_{place}.svg){{ .chart }}"
        for place, (case, _) in enumerate(_charts(climb))
    )
    return (
        f"{title}\n\n{ladder.find(climb.ladder).about}\n\n{shown}\n\n"
        f"Recorded on {climb.when[:10]}. [The whole climb]({climb.ladder}_climb.html) shows what "
        f"changes in the source and in the counters from rung to rung; `weft climb {climb.ladder}` "
        f"repeats it on the simulated GPU.\n{rest}"
    )


def _overview() -> str:
    rows = [
        f"| [{one.ladder}]({one.ladder}.md) | {len(one.rungs)} | {ladder.find(one.ladder).about} |"
        for one in recorded()
    ]
    return "\n".join(
        [
            "# Ladders\n",
            "A ladder is one operation from the naive kernel to the tuned one, one idea at a time. "
            "[Climb](../climb.md) explains the commands; [all times](../ladders.md) has a table "
            "of every rung.\n",
            "| ladder | rungs | |",
            "|---|--:|---|",
            *rows,
        ]
    )


def _charts(climb: Climb) -> Iterator[tuple[str, str]]:
    """Each size, and its chart: the part of the limit that rungs and peers reach."""
    rungs = [(climb.named(rung), rung.times, "plain") for rung in climb.rungs]
    every = rungs + [(name, times, "other") for name, times in climb.peers.items()]
    for case, limit in climb.limits.items():
        rows = [(name, t, kind) for name, times, kind in every for t in times if t.case == case]
        best = min((t.seconds for _, t, kind in rows if kind == "plain"), default=0.0)
        drawn = [_bar(n, t, "best" if t.seconds == best else kind) for n, t, kind in rows]
        yield case, bars(f"{climb.gpu}, {case}", drawn, f"part of the limit: {limit}")


def _bar(name: str, t: Time, kind: str) -> Bar:
    short = name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
    return Bar(short, t.of_limit, f"{duration(t.seconds)}, {t.of_limit:.0%}", kind)
