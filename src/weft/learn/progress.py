"""A learner's progress: a log with one line for every try, hint, reset and review.

    {"v": 1, "at": "2026-03-01T09:30:00+00:00", "do": "try", "exercise": "04 strip",
     "passed": true, "facts": {"writing threads": 1024}}

A line is appended by one call of the system, so that two terminals can write at once and Ctrl-C
leaves no half line. A damaged line is skipped and its number is kept. The state of an exercise
follows from its lines. `do` is "try", "hint", "reset" or "review".
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from weft.errors import ArgumentError

FILE = "progress.jsonl"
VERSION = 1
DAYS = (1, 3, 7, 21, 60)
"""Days until the next review: after the first pass, and after each review that is passed."""
_TYPES: Mapping[str, type] = {"at": str, "do": str, "exercise": str}
_ACTIONS = ("try", "hint", "reset", "review")


@dataclass(frozen=True)
class State:
    """The state of one exercise of a learner.

    passed    whether the last try passed
    tries     tries in all; `hints` the hints shown
    first     the time of the first pass
    facts     what the last passed try measured
    step      the place in `DAYS` of the wait for the next review
    due       the time of the next review; None before the first pass
    reviews   reviews passed
    slipped   whether a try of the current review has failed
    """

    passed: bool = False
    tries: int = 0
    hints: int = 0
    first: datetime | None = None
    facts: Mapping[str, float] = field(default_factory=dict)
    step: int = 0
    due: datetime | None = None
    reviews: int = 0
    slipped: bool = False


@dataclass(frozen=True)
class Progress:
    """The states by the titles of exercises, and the numbers of damaged lines."""

    states: Mapping[str, State]
    damaged: tuple[int, ...] = ()

    @property
    def passed(self) -> set[str]:
        """The titles of the exercises whose last try passed."""
        return {title for title, state in self.states.items() if state.passed}

    def of(self, title: str) -> State:
        """The state of an exercise, also of one that has no line yet."""
        return self.states.get(title, State())


def add(folder: Path, do: str, exercise: str, **more: Any) -> None:
    """Append a line to the log of a learner's folder."""
    at = datetime.now(UTC).isoformat(timespec="seconds")
    row = {"v": VERSION, "at": at, "do": do, "exercise": exercise, **more}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    line = json.dumps(row).encode() + b"\n"
    # A full disk can leave a line without its end; the new one must not become a part of it.
    start = b"" if _ended(path) else b"\n"
    opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        os.write(opened, start + line)
    finally:
        os.close(opened)


def read(folder: Path) -> Progress:
    """Read the log of a learner's folder; no progress if there is none."""
    path, states, damaged = folder / FILE, dict[str, State](), list[int]()
    for number, line in _lines(path):
        event = _event(path, number, line)
        if event is None:
            damaged.append(number)
            continue
        title = str(event["exercise"])
        states[title] = _after(states.get(title, State()), event)
    return Progress(states, tuple(damaged))


def _ended(path: Path) -> bool:
    if not path.is_file() or not path.stat().st_size:
        return True
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() == b"\n"


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers from 1."""
    if not path.exists():
        return
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ArgumentError(
            "the progress cannot be read",
            where=str(path),
            got=error.strerror or "",
            next="move it away and run weft learn check: passed exercises are found again",
        ) from None
    for number, line in enumerate(text.split(b"\n"), 1):
        if line.strip():
            yield number, line


def _event(path: Path, number: int, line: bytes) -> dict[str, Any] | None:
    """A line as a dict with its time; None if it is damaged."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):  # bytes that are no UTF-8 are a ValueError, too
        return None
    if not isinstance(row, dict) or not isinstance(version := row.get("v"), int):
        return None
    if version > VERSION:
        raise ArgumentError(
            "the progress was written by a newer weft",
            where=f"{path}:{number}",
            got=f"version {version}",
            allowed=f"version {VERSION}",
            next="update weft, or choose another folder with --in",
        )
    if not all(isinstance(row.get(name), kind) for name, kind in _TYPES.items()):
        return None
    graded = row["do"] in ("try", "review")
    if row["do"] not in _ACTIONS or (graded and not isinstance(row.get("passed"), bool)):
        return None
    try:
        at = datetime.fromisoformat(row["at"])
    except ValueError:
        return None
    return {**row, "at": at if at.tzinfo else at.replace(tzinfo=UTC), "facts": _facts(row)}


def _facts(row: Mapping[str, Any]) -> dict[str, float]:
    found = row.get("facts")
    if not isinstance(found, dict):
        return {}
    return {n: float(v) for n, v in found.items() if isinstance(v, int | float)}


def _after(state: State, event: Mapping[str, Any]) -> State:
    """The state after an event."""
    at: datetime = event["at"]
    match event["do"]:
        case "hint":
            return replace(state, hints=state.hints + 1)
        case "reset":
            return replace(state, passed=False, first=None, due=None, step=0, slipped=False)
        case "review":
            return _reviewed(state, at, event["passed"])
    tried = replace(state, tries=state.tries + 1, passed=event["passed"])
    if not event["passed"]:
        return tried
    tried = replace(tried, facts=event["facts"])
    return tried if state.first else replace(tried, first=at, due=_due(at, 0))


def _reviewed(state: State, at: datetime, passed: bool) -> State:
    """The state after a try of a review: one that slipped begins with the first wait again."""
    if not passed:
        return replace(state, slipped=True)
    step = 0 if state.slipped else min(state.step + 1, len(DAYS) - 1)
    return replace(state, step=step, due=_due(at, step), reviews=state.reviews + 1, slipped=False)


def _due(at: datetime, step: int) -> datetime:
    return at + timedelta(days=DAYS[step])
