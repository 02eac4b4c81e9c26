"""Where a source was opened from: an example, a rung of a ladder or an exercise of the course.

An origin is a word such as `ladder:transpose/rung_00_naive` or `learn:04/strip`. `opened` gives the
page a job that is ready to run; `rung` and `exercise` give actions what a check needs.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from weft.climbing import ladder
from weft.climbing import rung as rungs
from weft.climbing.ladder import Ladder
from weft.climbing.rung import Rung
from weft.errors import ArgumentError
from weft.learn import chapter
from weft.learn.chapter import Exercise
from weft.measure.op import ArraySpec, Op, array_specs

HOME = Path(__file__).parent
_LANGUAGES = {"CUDA C++": "cuda", "Triton": "triton", "Numba": "numba", "Python": "numba"}


def catalogue() -> dict[str, Any]:
    """What the page's menu opens."""
    ladders = [{"name": name, "rungs": list(_rungs(name))} for name in ladder.names()]
    chapters = [
        {
            "number": c.number,
            "title": c.title,
            "exercises": [{"origin": f"learn:{e.chapter:02}/{e.name}", "title": e.name,
                           "goal": e.goal} for e in c.exercises],
        }
        for c in chapter.chapters()
    ]  # fmt: skip
    return {
        "examples": [
            {"origin": f"example:{row['name']}", "title": row["title"]} for row in _examples()
        ],
        "ladders": ladders,
        "chapters": chapters,
    }


def _rungs(name: str) -> Iterator[dict[str, str]]:
    """The rungs of a ladder, from their file names: reading them all would import PyTorch."""
    for path in sorted((ladder.HOME / name).glob("rung_*.*")):
        language = rungs.language(path)
        if language != "Python":  # plain Python launches nothing
            origin = f"ladder:{name}/{path.stem}"
            yield {"origin": origin, "title": rungs.title(path), "language": language}


@functools.cache
def _examples() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = tomllib.loads((HOME / "examples/examples.toml").read_text())[
        "example"
    ]
    return rows


def rung(origin: str) -> tuple[Ladder, Rung] | None:
    """The rung that an origin names; None for other origins."""
    kind, _, place = origin.partition(":")
    if kind != "ladder":
        return None
    name, _, stem = place.partition("/")
    if name not in ladder.names():  # not a path of the user's disk
        raise _unknown(origin)
    one = ladder.find(name)
    for r in one.rungs:
        if r.path.stem == stem:
            return one, r
    raise _unknown(origin)


def exercise(origin: str) -> Exercise | None:
    """The exercise that an origin names; None for other origins."""
    kind, _, place = origin.partition(":")
    if kind != "learn":
        return None
    number, _, name = place.partition("/")
    if number.isdecimal():
        for e in chapter.find(int(number)).exercises:
            if e.name == name:
                return e
    raise _unknown(origin)


def opened(origin: str) -> dict[str, Any]:
    """The job of an origin, as the page holds it, and texts to show beside it."""
    if (on := rung(origin)) is not None:
        one, r = on
        job = _job(origin, r, one.op)
        return {**job, "title": f"{one.op.name}: {r.title}", "note": r.idea, "goal": ""}
    if (e := exercise(origin)) is not None:
        job = _job(origin, e.attempt(e.given), e.op)
        note = {"title": e.title, "note": e.goal, "goal": "; ".join(e.rules)}
        return {**job, **note, "chapter": e.chapter, "hints": list(e.hints)}
    for row in _examples():
        if origin == f"example:{row['name']}":
            return _example(origin, row)
    raise _unknown(origin)


def _example(origin: str, row: dict[str, Any]) -> dict[str, Any]:
    inputs, outputs = (array_specs(side, row["signature"]) for side in row["signature"].split("->"))
    start = row.get("results", "uninitialised")
    rows = [_row(s, "random", False) for s in inputs] + [_row(s, start, True) for s in outputs]
    return {
        "origin": origin,
        "title": row["title"],
        "kind": row.get("language", "cuda"),
        "source": (HOME.parent / row["file"]).read_text(),
        "sizes": [{"name": n, "value": v} for n, v in row["sizes"].items()],
        "arrays": rows,
        "launches": row["launch"],
        "reference": row["reference"],
    }


def _job(origin: str, r: Rung, op: Op) -> dict[str, Any]:
    sizes = op.cases[0].sizes
    outputs = [s.name for s in op.outputs]
    blank = {n: "zeros" if n in r.clear else "uninitialised" for n in outputs}
    rows = [_row(s, blank.get(s.name, "random"), s.name in outputs)
            for s in (*op.inputs, *op.outputs)]  # fmt: skip
    rows += [_row(s, "zeros", False) for s in r.scratch]
    return {
        "origin": origin,
        "kind": _LANGUAGES[r.language],
        "source": r.path.read_text(),
        "sizes": [{"name": n, "value": v} for n, v in sizes.items()],
        "arrays": rows,
        "launches": [_launch(s.kernel, s.grid, s.block, s.shared) for s in r.steps],
        "reference": "",
        "checks": f"{op.name}: {op.signature}",
        "planned": r.planner is not None,
    }


def _launch(kernel: str, grid: str, block: str, shared: str) -> str:
    parts = [grid, block, *([] if shared == "0" else [shared])]
    return f"{kernel}<<<{', '.join(parts)}>>>"


def _row(spec: ArraySpec, fill: str, out: bool) -> dict[str, Any]:
    if spec.within is not None:
        fill = "..".join(spec.within)
    shape = ", ".join(spec.sizes)
    return {"name": spec.name, "dtype": spec.dtype.name, "shape": shape, "fill": fill, "out": out}


def _unknown(origin: str) -> ArgumentError:
    return ArgumentError("there is nothing of this name to open", got=origin[:80])
