"""Tables of `weft bench networks`, from its records."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from weft.values.networks import NetworkTime, mean

RECORDS = Path(__file__).resolve().parents[1] / "benchmarks" / "records" / "networks.jsonl"
MISSING = "There is no record yet: `weft bench networks --record {file}` makes one on a GPU."
Table = Callable[[Sequence[str], Iterable[Sequence[object]]], str]
CLOCKS = ("called", "graph", "")
BARS = 8
"""Kernels of a step that the page names; the others are added up."""


def newest(wanted: Callable[[dict[str, Any]], bool] = bool) -> list[dict[str, Any]]:
    """The newest wanted record of each step, in the order of the newest ones' first appearance."""
    text = RECORDS.read_text("utf-8") if RECORDS.is_file() else ""
    records = map(json.loads, text.splitlines())
    return list({r["words"]: r for r in records if wanted(r)}.values())


def ratios(table: Table) -> str:
    """PyTorch's fastest contender over weft's fastest, of each step."""
    records = newest()
    if not records:
        return _missing()
    times = [(r, _time(r)) for r in records]
    rows = [
        (f"`{t.case.words}`", *(_ratio(t.ratio(c)) for c in CLOCKS), r["date"]) for r, t in times
    ]
    means = (_ratio(mean(t.ratio(c) for _, t in times)) for c in CLOCKS)
    header = ("step", "as called#", "in graphs#", "best of both#", "measured")
    body = table(header, [*rows, ("geometric mean", *means, "")])
    return f"{_machine(records)}. Above 1, weft is faster.\n\n{body}"


def steps(table: Table) -> str:
    """Every contender of each step."""
    records = newest()
    if not records:
        return _missing()
    header = ("step", "contender", "ms#", "in a graph, ms#", "peak memory, GB#",
              "first call, s#", "in a second process, s#", "losses differ by#")  # fmt: skip
    rows = []
    for time in map(_time, records):
        for number, (name, r) in enumerate(time.results.items()):
            apart = time.apart(name)
            rows.append((
                "" if number else f"`{time.case.words}`", name,
                *(_ms(r.time(c)) if not r.failed else "failed" for c in CLOCKS[:2]),
                f"{r.memory / 1e9:.1f}" if r.memory else "",
                *("" if math.isnan(s) else f"{s:.1f}" for s in (r.first, r.second)),
                "" if math.isnan(apart) else f"{apart:.1e}",
            ))  # fmt: skip
    return table(header, rows)


def line(table: Table) -> str:
    """One sentence: how much faster the steps are than PyTorch's fastest, and the least of them."""
    found = [_time(r) for r in newest()]
    parts = [
        _part(name, [t for t in found if t.case.training == training])
        for name, training in (("training", True), ("inference", False))
    ]
    if not any(parts):
        return _missing()
    gaps = {
        "no eager calls": sum("eager" not in t.results for t in found),
        "no CUDA graphs": sum(math.isnan(t.ratio("graph")) for t in found),
    }
    return (
        f"Steps of whole networks on an {newest()[-1]['gpu']}, beside PyTorch's best of eager"
        f" calls, torch.compile and CUDA graphs: {'; '.join(filter(None, parts))}."
        + "".join(
            f" The newest runs of {n} of the steps have {what}." for what, n in gaps.items() if n
        )
    )


def _part(name: str, times: Sequence[NetworkTime]) -> str:
    """The mean and the least ratio of some steps."""
    ratios = [(t.ratio(""), t.case.words) for t in times if not math.isnan(t.ratio(""))]
    if not ratios:
        return ""
    least, words = min(ratios)
    all_of = mean(r for r, _ in ratios)
    return f"{name} {all_of:.2f} x ({len(ratios)} steps, the least {least:.2f} x: {words})"


STORY = (
    ("a plain loop", "eager", "called"),
    ("`torch.compile`", "compile", "called"),
    ("`weft.nn.convert` and `weft.optim.AdamW`", "weft", "called"),
    ("the same as a CUDA graph", "weft", "graph"),
    ('`torch.compile(backend="weft")`', "weft compile", "called"),
    ("the same as a CUDA graph", "weft compile", "graph"),
    ('`torch.compile(backend="weft", mode="reduce-overhead")`', "weft reduce-overhead", "called"),
)
"""Versions of a training step: how the page names one, its contender and its clock."""
STEPS = ("gpt2-124m train bf16 batch=8 length=1024", "gpt2-124m train autocast batch=8 length=1024")


def story(table: Table) -> str:
    """A training step of GPT-2 in the versions that were measured."""
    found = {r["words"]: r for r in newest() if r["words"] in STEPS}
    if not found:
        return _missing()
    times = [_time(found[words]) for words in STEPS if words in found]
    rows = []
    for title, name, clock in STORY:
        cells = [_ms(t.results[name].time(clock)) if name in t.results else "" for t in times]
        if any(cells):
            rows.append((title, *cells))
    header = ("version", *(f"{t.case.dtype}, ms#" for t in times))
    records = list(found.values())
    return f"{_machine(records)}, {records[-1]['date']}.\n\n{table(header, rows)}"


LISTED = ("compile", "weft compile")
"""Contenders whose kernels the page shows."""


def kernels(table: Table) -> str:
    """The longest kernels of training steps in bf16, by torch.compile and by weft's compiler."""
    times = [(_time(r), r["date"]) for r in newest(_has_kernels)]
    listed = [
        (t, f"{name}, {date}", t.results[name])
        for t, date in times
        for name in LISTED
        if name in t.results and t.results[name].kernels
        if t.case.training and t.case.dtype == "bf16"
    ]
    if not listed:
        return "No record has kernels yet: `weft bench networks --kernels` lists them."
    rows: list[tuple[object, ...]] = []
    for time, name, result in listed:
        total = sum(us for _, _, us in result.kernels)
        for number, (kernel, launches, us) in enumerate(result.kernels[:BARS]):
            head = ("", "") if number else (f"`{time.case.words}`", name)
            shown = kernel[:70].replace("|", "/")
            rows.append((*head, f"`{shown}`", launches, f"{us / 1e3:.2f}", _bar(us / total)))
        rest = total - sum(us for _, _, us in result.kernels[:BARS])
        rows.append(("", "", "others", "", f"{rest / 1e3:.2f}", _bar(rest / total)))
    header = ("step", "contender", "kernel", "launches#", "ms#", "share of the GPU's time")
    return table(header, rows)


def _has_kernels(record: dict[str, Any]) -> bool:
    """True if a contender that the page shows has kernels; not all runs list them."""
    return any(record["results"].get(name, {}).get("kernels") for name in LISTED)


def _bar(share: float) -> str:
    return f"{'█' * round(30 * share)} {share:.0%}".strip()


def _time(record: dict[str, Any]) -> NetworkTime:
    return NetworkTime.from_dict(record)


def _machine(records: Sequence[dict[str, Any]]) -> str:
    r = records[-1]
    return f"{r['gpu']}, driver {r['driver']}, torch {r['torch']}"


def _missing() -> str:
    root = RECORDS.parents[2]
    return MISSING.format(file=RECORDS.relative_to(root))


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.2f}" if math.isfinite(seconds) else ""


def _ratio(number: float) -> str:
    return "" if math.isnan(number) else f"{number:.2f} x"


TABLES: dict[str, Callable[[Table], str]] = {
    "networks_line": line,
    "networks_ratios": ratios,
    "networks_steps": steps,
    "networks_story": story,
    "networks_kernels": kernels,
}
