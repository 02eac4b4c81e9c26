"""The tables of docs/predict.md, from what benchmarks/predict*.py record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from benchmark_records import rows_of

from weft.device import models
from weft.measure.profile.prediction import judge
from weft.measure.profile.prediction.constants import JUDGED

Table = Callable[[Sequence[str], Iterable[Sequence[object]]], str]
Row = dict[str, Any]


def rows(name: str = "predict") -> list[Row]:
    """The rows of a record that were counted for the model as it is."""
    counted = (row for row in rows_of(f"{name}.jsonl") if "failed" not in row)
    return [row for row in counted if all("code" in launch for launch in row["launches"])]


def errors(table: Table) -> str:
    """The published errors, beside what is wanted."""
    every = rows()
    held = [r for r in every if not judge.is_for_fit(r)]
    fitted = [r for r in every if judge.is_for_fit(r)]
    body = []
    blind = [r for r in held if r["blind"]]
    groups = (("judged", held), ("of these, counted later", blind), ("fitted to", fitted))
    for label, some in groups:
        j = judge.judge(some)
        pairs = f"{j.ordered:.0%} of {j.pairs}"
        body.append((label, j.rows, *(f"{x:.0%}" for x in (j.median, j.most, j.within)), pairs))
    body.append(("wanted", "", "15 %", "35 %", "90 %", "95 %"))
    header = ("rungs and sizes", "number#", "median error#", "90th percentile#",
              "within 35 %#", "pairs in order#")  # fmt: skip
    return table(header, body)


def by_ladder(table: Table) -> str:
    """Errors and rank correlation of each ladder, on the rungs that were not fitted."""
    held = [r for r in rows() if not judge.is_for_fit(r)]
    body = []
    for name in sorted({r["ladder"] for r in held}):
        own = [r for r in held if r["ladder"] == name]
        j = judge.judge(own)
        # Rungs are compared at one size: that of most rungs.
        cases = [r["case"] for r in own]
        main = max(sorted(set(cases)), key=cases.count)
        rank = judge.rank_correlation([r for r in own if r["case"] == main])
        worst = max(own, key=judge.error)
        ratio = judge.predicted(worst) / worst["measured"]
        body.append(
            (
                name,
                j.rows,
                f"{j.median:.0%}",
                f"{j.ordered:.0%} of {j.pairs}" if j.pairs else "",
                f"{rank:.2f}" if rank is not None else "",
                f"{worst['rung']}: {ratio:.2f} x",
            )
        )
    header = ("ladder", "judged#", "median error#", "pairs in order#", "rank correlation#",
              "worst: predicted / measured")  # fmt: skip
    return table(header, body)


def by_layer(table: Table) -> str:
    """Errors on layers of models that were not fitted to, by their kind."""
    every = [r for r in rows("predict_layers") if not judge.is_for_fit(r)]
    kinds = {kind: [r for r in every if r["ladder"] == kind] for kind in _kinds(every)}
    unseen = [r for r in every if judge.is_unseen(r)]
    return _worst(
        table,
        ("layers", "calls#"),
        {"all": every, "all that were looked at last": unseen, **kinds},
    )


def by_program(table: Table) -> str:
    """Errors on kernels of public programs, to which nothing is fitted."""
    every = rows("predict_public")
    programs = {r["ladder"]: r for r in sorted(every, key=lambda r: r["measured"])}
    found = {r["repository"] for r in every}
    by_repository = {name: [r for r in every if r["repository"] == name] for name in sorted(found)}
    named = [r | {"rung": f"{r['ladder']} {r['rung']}"} for r in every]
    longest = [r for r in named if any(r["measured"] == p["measured"] for p in programs.values())]
    groups = {"all": named, f"the longest kernel of each of {len(programs)} programs": longest}
    return _worst(table, ("programs of", "kernels#"), groups | by_repository)


def _worst(table: Table, names: tuple[str, str], groups: dict[str, list[Row]]) -> str:
    body = []
    for kind, own in groups.items():
        j = judge.judge(own)
        worst = max(own, key=judge.error)
        ratio = judge.predicted(worst) / worst["measured"]
        errors = (f"{x:.0%}" for x in (j.median, j.most, j.within))
        body.append((kind, j.rows, *errors, f"{worst['rung']}: {ratio:.2f} x"))
    header = (*names, "median error#", "90th percentile#", "within 35 %#",
              "worst: predicted / measured")  # fmt: skip
    return table(header, body)


def _kinds(every: Sequence[Row]) -> list[str]:
    return sorted({row["ladder"] for row in every})


def gpus(table: Table) -> str:
    """A sentence on the GPUs that were measured, and those that were not."""
    known = ", ".join(f"`{key}`" for key in JUDGED)
    rest = ", ".join(f"`{key}`" for key in models.names() if key not in JUDGED)
    return f"Judged by measured times: {known}.\n\nNever measured, rates of data sheets: {rest}."


TABLES: dict[str, Callable[[Table], str]] = {
    "prediction_errors": errors,
    "prediction_ladders": by_ladder,
    "prediction_layers": by_layer,
    "prediction_programs": by_program,
    "predicted_gpus": gpus,
}
