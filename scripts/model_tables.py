"""Tables of `weft bench models`: the models from their file, their speeds from records."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from weft.values.models import CLOCKS, LIMITS, LayerTime, ModelTimes, groups, speeds

RECORDS = Path(__file__).resolve().parents[1] / "benchmarks" / "records" / "models.jsonl"
MISSING = "There is no record yet: `weft bench models --record {file}` makes one on a GPU."
WORST = 15
"""The slowest calls that the page lists by each clock."""
Table = Callable[[Sequence[str], Iterable[Sequence[object]]], str]


def listed(table: Table) -> str:
    """Every model with its number of distinct layers, and where its sizes are stated."""
    from weft.ops.models import config, layers  # these need torch, which other tables do not

    rows = [
        (f"`{m.name}`", m.group, len(layers.layers(m)), m.source) for m in config.models().values()
    ]
    total = sum(int(row[2]) for row in rows)
    header = ("model", "group", "layers#", "source of the sizes")
    return f"{len(rows)} models with {total:,} distinct layers.\n\n{table(header, rows)}"


def newest() -> list[dict[str, Any]]:
    """The newest record of each seed that was made with the kernels of the newest record."""
    text = RECORDS.read_text("utf-8") if RECORDS.is_file() else ""
    records = [json.loads(line) for line in text.splitlines()]
    same = [r for r in records if r["kernels"] == records[-1]["kernels"]]
    return list({r["seed"]: r for r in same}.values())


def summary(table: Table) -> str:
    """The ratios of groups of calls by each clock."""
    records = newest()
    if not records:
        return _missing()
    times = _times(records)
    header = ["calls of", "calls#"]
    for clock in CLOCKS:
        header += [f"{clock}: mean#", "worst#", *(f"< {limit}#" for limit in LIMITS)]
    rows = []
    for name, found in groups(times).items():
        cells: list[object] = []
        for clock in CLOCKS:
            s = speeds(found, clock)
            cells += [_ratio(s.mean), _ratio(s.worst), *s.below]
        rows.append([name, len(found), *cells])
    return f"{_machine(records)}\n\n{table(header, rows)}\n\n{_precision(times)}"


def worst(table: Table) -> str:
    """The calls that lose most, as called and on the device."""
    records = newest()
    if not records:
        return _missing()
    times = _times(records)
    parts = []
    for clock, words in zip(CLOCKS, ("As called", "In a CUDA graph"), strict=True):
        compared = [t for t in times if not math.isnan(t.ratio(clock))]
        low = sorted(compared, key=lambda t: t.ratio(clock))[:WORST]
        header = ("ratio#", "call", "kernel", "weft, µs#", "best peer, µs#", "peer")
        rows = [
            (_ratio(t.ratio(clock)), t.layer.words, t.result.plan, *_pair(t, clock)) for t in low
        ]
        parts.append(f"{words}:\n\n{table(header, rows)}")
    return "\n\n".join(parts)


def _times(records: Sequence[dict[str, Any]]) -> list[LayerTime]:
    return [t for r in records for t in ModelTimes.from_dict(r).times]


def _pair(t: LayerTime, clock: str) -> tuple[str, str, str]:
    """The time of weft, that of the best peer, and its name."""
    seconds = dict(t.seconds(clock))
    weft = seconds.pop("weft")
    peer = min(seconds, key=seconds.__getitem__)
    return f"{1e6 * weft:.1f}", f"{1e6 * seconds[peer]:.1f}", peer


def _precision(times: Sequence[LayerTime]) -> str:
    wrong, imprecise = (
        sum(x) for x in zip(*((t.result.wrong, t.imprecise) for t in times), strict=True)
    )
    return f"Of {len(times)} results: {wrong} wrong, {imprecise} less precise than PyTorch's."


def _ratio(number: float) -> str:
    return "" if math.isnan(number) else f"{number:.2f} x"


def _machine(records: Sequence[dict[str, Any]]) -> str:
    last = records[-1]
    seeds = ", ".join(str(r["seed"]) for r in records)
    days = sorted({r["date"] for r in records})
    how = ", cuDNN at its best" if all(r["cudnn_benchmark"] for r in records) else ""
    how += ", `torch.compile` with max-autotune" if all(r["max_autotune"] for r in records) else ""
    return (
        f"{last['gpu']}, driver {last['driver']}, torch {last['torch']}{how}, {days[-1]}, seeds "
        f"{seeds}. The ratio is the time of the fastest peer divided by that of weft: above 1, "
        "weft is faster."
    )


def _missing() -> str:
    return MISSING.format(file=RECORDS.relative_to(RECORDS.parents[2]))


TABLES: dict[str, Callable[[Table], str]] = {
    "models_list": listed,
    "models_speed": summary,
    "models_worst": worst,
}
