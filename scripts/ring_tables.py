"""Tables and pictures of attention on several ranks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmark_records import newest

from weft.distributed import schedule
from weft.distributed.blocks import LAYOUTS
from weft.report.ring.page import amount, svg

Table = Callable[..., str]
ROOT = Path(__file__).resolve().parents[1]
CASES = (*LAYOUTS, "packed", "ulysses")
WORLD, LENGTH = 4, 131072
"""Ranks and tokens of the pictures, and of the table of layouts for more ranks."""


def errors(table: Table) -> str:
    """The newest run of `benchmarks/ring_errors.py`."""
    run = newest("ring_errors.jsonl")
    body = [
        (world, *(_worst(found, case) for case in CASES)) for world, found in run["errors"].items()
    ]
    header = ("ranks#", *(f"{case}#" for case in CASES))
    return (
        "Largest relative error, |found - exact| / |exact|, of the result and of the gradients of"
        " query, key and value against float64, with and without a causal mask: float32 on the"
        f" simulated GPU, torch {run['torch']}, {run['date']}, `benchmarks/ring_errors.py`."
        f"\n\n{table(header, body)}"
    )


def _worst(found: dict[str, float], case: str) -> str:
    errors = [e for name, e in found.items() if name in (f"{case} full", f"{case} causal")]
    return f"{max(errors):.1e}" if errors else ""


def layouts(table: Table) -> str:
    """Idle share and bytes of each layout under a causal mask."""
    body = []
    for layout in LAYOUTS:
        made = [schedule(layout, world, length=LENGTH) for world in (2, WORLD, 8)]
        idle = (f"{one.idle:.1%}" for one in made)
        body.append((f"`{layout}`", *idle, amount(made[-1].sent)))
    header = ("layout", *(f"idle, {n} ranks#" for n in (2, WORLD, 8)), "sent by 8 ranks#")
    return table(header, body)


def files() -> dict[Path, str]:
    """The pictures of the document, and where they are."""
    made = {layout: svg(schedule(layout, WORLD, length=LENGTH)) for layout in LAYOUTS}
    return {ROOT / "docs" / f"ring_{layout}.svg": text for layout, text in made.items()}


TABLES = {"ring_errors": errors, "ring_layouts": layouts}
