"""The origins of sources: examples, rungs of ladders, exercises and puzzles.

An origin is a word: `ladder:transpose/rung_00_naive`, `learn:04/strip`, `puzzle:map/numba`.
`opened` gives the page a job that is ready to run; `rung` and `exercise` give actions what a check
needs. Exercises that are whole programs have host code, which the lab does not run.
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
from weft.learn import chapter, puzzle
from weft.learn.chapter import Chapter
from weft.learn.exercise import KernelExercise
from weft.measure.op import ArraySpec, Op, array_specs

HOME = Path(__file__).parent
KERNELS = [HOME.parent / name for name in ("ladders", "ops", "optim")]
"""The folders of kernels that rungs include beside their own."""
_LANGUAGES = {"CUDA C++": "cuda", "Triton": "triton", "Numba": "numba"}


def catalogue() -> dict[str, Any]:
    """The page's menu: examples, ladders, chapters and puzzles."""
    ladders = [{"name": name, "rungs": list(_rungs(name))} for name in ladder.names()]
    return {
        "examples": [
            {"origin": f"example:{row['name']}", "title": row["title"]} for row in _examples()
        ],
        "ladders": ladders,
        "chapters": [
            {"number": c.number, "title": c.title, "exercises": exercises(c)}
            for c in chapter.chapters()
        ],
        "puzzles": [
            {"name": p.name, "goal": p.goal,
             "answers": [{"origin": f"puzzle:{p.name}/{key}", "title": puzzle.LANGUAGES[key].name}
                         for key in p.answers]}
            for p in puzzle.puzzles()
        ],
    }  # fmt: skip


def exercises(one: Chapter) -> list[dict[str, str]]:
    """The exercises of a chapter that the lab opens."""
    return [
        {"origin": f"learn:{one.number:02}/{e.name}", "title": e.name, "goal": e.goal}
        for e in one.exercises
        if isinstance(e, KernelExercise)
    ]


def _rungs(name: str) -> Iterator[dict[str, str]]:
    """The rungs of a ladder, from their file names: reading them all would import PyTorch."""
    for path in sorted((ladder.HOME / name).glob("rung_*.*")):
        language = rungs.language(path)
        if language != "Python":  # plain Python launches nothing
            origin = f"ladder:{name}/{path.stem}"
            yield {"origin": origin, "title": rungs.title(path), "language": language}


@functools.cache
def _examples() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = tomllib.loads(
        (HOME / "examples/examples.toml").read_text("utf-8")
    )["example"]
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


def exercise(origin: str) -> KernelExercise | None:
    """The exercise or the puzzle that an origin names; None for other origins."""
    kind, _, place = origin.partition(":")
    one, _, name = place.partition("/")
    if kind == "learn" and one.isdecimal():
        for e in chapter.find(int(one)).exercises:
            if e.name == name and isinstance(e, KernelExercise):
                return e
    if kind == "puzzle" and name in puzzle.LANGUAGES:
        return puzzle.find(one).answers[name]
    if kind in ("learn", "puzzle"):
        raise _unknown(origin)
    return None


def operation(origin: str) -> Op | None:
    """The operation that a source of this origin computes."""
    if (on := rung(origin)) is not None:
        return on[0].op
    one = exercise(origin)
    return None if one is None else one.op


def folders(origin: str) -> list[Path]:
    """The folders of the headers that a source of this origin includes."""
    if (on := rung(origin)) is not None:
        return [on[1].path.parent, *KERNELS]
    one = exercise(origin)
    return [] if one is None else [one.solution.parent]


def opened(origin: str) -> dict[str, Any]:
    """The job of an origin, as the page holds it, and texts to show beside it."""
    if (on := rung(origin)) is not None:
        one, r = on
        job = _job(r, one.op, r.path.read_text("utf-8"), _LANGUAGES.get(r.language, "numba"))
        return {**job, "origin": origin, "title": f"{one.op.name}: {r.title}", "note": r.idea}
    if (e := exercise(origin)) is not None:
        number = origin.removeprefix("learn:").partition("/")[0]
        return {
            **_exercise(e), "origin": origin, "title": e.title, "note": e.goal,
            "goal": "; ".join(filter(None, (*e.rules, e.by))), "hints": list(e.hints),
            "chapter": int(number) if number.isdecimal() else 0,
        }  # fmt: skip
    for row in _examples():
        if origin == f"example:{row['name']}":
            return _example(origin, row)
    raise _unknown(origin)


def languages(origin: str) -> list[str]:
    """The origins that compute the same as one, one for each language; none for most."""
    kind, _, place = origin.partition(":")
    if kind == "puzzle":
        name = place.partition("/")[0]
        return [f"puzzle:{name}/{key}" for key in puzzle.find(name).answers]
    family = {row["name"]: row.get("family", "") for row in _examples()}
    same = family.get(place, "") if kind == "example" else ""
    return [f"example:{name}" for name, other in family.items() if same and other == same]


def _example(origin: str, row: dict[str, Any]) -> dict[str, Any]:
    sides = row["signature"].split("->") if row["signature"] else ()  # a program has no arrays
    inputs, outputs = [array_specs(side, row["signature"]) for side in sides] or [(), ()]
    start = row.get("results", "uninitialised")
    rows = [_row(s, "random", False) for s in inputs] + [_row(s, start, True) for s in outputs]
    return {
        "origin": origin,
        "title": row["title"],
        "kind": row.get("language", "cuda"),
        "source": (HOME.parent / row["file"]).read_text("utf-8"),
        "sizes": [{"name": n, "value": v} for n, v in row["sizes"].items()],
        "arrays": rows,
        "launches": row["launch"],
        "reference": row["reference"],
    }


def _exercise(e: KernelExercise) -> dict[str, Any]:
    # Plain Python calls libraries; its arrays say which of the two languages it is like.
    plain = "numba" if e.arrays == "numpy" else "triton"
    return _job(
        e.attempt(e.solution), e.op, e.text, _LANGUAGES.get(rungs.language(e.solution), plain)
    )


def _job(r: Rung, op: Op, source: str, kind: str) -> dict[str, Any]:
    """A job with the launches of a rung and the first sizes of an operation."""
    outputs = {s.name: "zeros" if s.name in r.clear else "uninitialised" for s in op.outputs}
    data = {**dict.fromkeys(op.fill, "given"), **outputs}
    rows = [
        _row(s, data.get(s.name, "random"), s.name in outputs) for s in (*op.inputs, *op.outputs)
    ]
    rows += [_row(s, "zeros", False) for s in r.scratch]
    return {
        "kind": kind,
        "source": source,
        "sizes": [{"name": n, "value": v} for n, v in op.cases[0].sizes.items()],
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
