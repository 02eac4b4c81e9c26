"""Makes the page of one job in a worker: what it shows is run, counted and predicted there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.errors import Error
from weft.lab import actions, setup
from weft.lab.job import LANGUAGES, Job, read
from weft.lab.worker import said
from weft.measure.profile.result import Profile
from weft.report.lab import page
from weft.report.prediction import text
from weft.tasks.prediction import predict
from weft.tasks.prediction.predict import Predicted


def export(job: Job, limit: float) -> dict[str, Any]:
    """The page of a job; a job that fails shows its error."""
    results: Sequence[Mapping[str, Any]] = ()
    profiles: list[Profile] = []
    failure = printed = ""
    try:
        results = actions.run(job, limit)["results"]
        printed = said()  # counting runs it again
        profiles = actions.profiles(job, limit)
    except Error as error:
        failure, printed = str(error), printed or said()
    keys = predict.gpus(",".join(job.gpus or (actions.model(job),)))
    found = predict.of_profiles(profiles, keys) if profiles else None
    one = page.Exported(
        job.title, "", LANGUAGES[job.kind], job.file, job.source, _rows(job),
        [_result(r) for r in results], printed, failure, _times(found), profiles,
    )  # fmt: skip
    return {"page": page.page(one), "says": _says(found, failure)}


def perform(
    do: str, job: Mapping[str, Any], limit: float, include: Sequence[str]
) -> dict[str, Any]:
    """Make the page of a job as the server sent it."""
    prepared = setup.prepared(read(job), include)
    return actions.guarded(prepared, lambda: export(prepared, limit))


def _times(found: Predicted | None) -> list[Any]:
    return [] if found is None else [*text.view(found.counted, found.names, found.launches)]


def _says(found: Predicted | None, failure: str) -> str:
    """A line for the index."""
    if found is None:
        return failure.partition("\n")[0]
    each = (
        f"{row[0].kernel}: {text.cells(row[0])[0]} on {row[0].gpu}, bound by {row[0].bound}"
        for row in found.launches
    )
    return "; ".join(each)


def _rows(job: Job) -> list[tuple[str, str]]:
    rows = [("sizes", ", ".join(f"{n} = {v}" for n, v in job.sizes.items()))]
    rows += [
        (f"{a.name}{' (out)' if a.out else ''}", f"{a.dtype.name}[{a.shape}], {a.fill}")
        for a in job.arrays
    ]
    rows += [("launch", line) for line in job.launches]
    rows.append(("reference", job.reference))
    return [row for row in rows if row[1]]


def _result(r: Mapping[str, Any]) -> dict[str, str]:
    """An array of a run: its type, its range, and its first elements in columns."""
    shape = ", ".join(map(str, r["shape"]))
    range_ = f", {r['min']} to {r['max']}" if "min" in r else ""
    unchanged = "" if r["changed"] else ", unchanged"
    wide = max((len(v) for row in r["rows"] for v in row), default=0)
    values = "\n".join(" ".join(v.rjust(wide) for v in row) for row in r["rows"])
    return {"name": r["name"], "says": f"{r['dtype']}[{shape}]{range_}{unchanged}",
            "values": values or "no elements"}  # fmt: skip
