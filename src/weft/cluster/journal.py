"""Keep results on disk as they come, so that an interrupted command goes on where it ended.

A journal belongs to one job: the same command, calls and versions. It is a file of JSON lines in
the user's cache, and it is removed when the job is complete.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from weft import cache
from weft.cluster.processes import Answer, Pool

Tell = Callable[[str], None]


class Journal:
    """The results of a job by task and GPU; `keep` has the file stay when the job ends."""

    def __init__(self, path: Path) -> None:
        self.path, self.keep = path, False
        self.known: dict[tuple[str, str], Any] = {}
        if path.is_file():
            # A line without its end was being written when the command was killed.
            whole = path.read_text("utf-8").rpartition("\n")[0]
            self.known = dict(map(_entry, whole.splitlines()))
            path.write_text(f"{whole}\n" if whole else "", "utf-8")

    def add(self, task: str, kind: str, value: Any) -> None:
        """Store a result, a JSON value."""
        self.known[task, kind] = value
        line = json.dumps({"task": task, "gpu": kind, "value": value})
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


@contextmanager
def journal(name: str, parts: Sequence[str], tell: Tell) -> Iterator[Journal]:
    """Open the journal of a job inside.

    name   the command
    parts  everything that the results depend on
    tell   called with a sentence if there are results, and if they are kept
    """
    file = f"{name}-{cache.key(name, *parts)[:24]}.jsonl"
    found = Journal(Path(cache.folder("cluster")) / file)
    if found.known:
        tell(f"{len(found.known)} results are taken from the run that was interrupted")
    try:
        yield found
    except BaseException:
        found.keep = True
        raise
    finally:
        if not found.keep:
            found.path.unlink(missing_ok=True)
        elif found.known:
            tell(f"{len(found.known)} results are kept: the same command goes on from them")


def resumed(
    tasks: Sequence[Any],
    *,
    known: Journal,
    pool: Pool,
    kinds: Sequence[str],
    dump: Callable[[Any], Any],
    load: Callable[[Any], Any],
    **settings: Any,
) -> Iterator[tuple[int, Answer | None]]:
    """Answer tasks from a journal, and by a pool those that it lacks; store their answers.

    dump, load  make a JSON value of the value of an answer, and back
    """
    names = [(str(task), kind) for task, kind in zip(tasks, kinds, strict=True)]
    left = [i for i, name in enumerate(names) if name not in known.known]
    for i in sorted({*range(len(tasks))} - {*left}):
        yield i, Answer(load(known.known[names[i]]))
    given = [kinds[i] for i in left]
    for n, answer in pool([tasks[i] for i in left], kinds=given, **settings):
        if answer is not None:
            known.add(*names[left[n]], dump(answer.value))
        yield left[n], answer


def _entry(line: str) -> tuple[tuple[str, str], Any]:
    entry = json.loads(line)
    return (entry["task"], entry["gpu"]), entry["value"]
