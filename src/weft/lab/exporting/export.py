"""Exports kernels of the lab as pages of a static site: `weft lab export FOLDER`.

A worker process makes each page, with the limits of the lab, and nothing of it needs a server.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.errors import ArgumentError
from weft.lab import origins
from weft.lab.process import LabWorker
from weft.lab.worker import EXPORT
from weft.report import files
from weft.report.lab import page

INDEX = "index.html"


def jobs(names: Sequence[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(file name without suffix, job) of origins; without names, of all examples."""
    examples = [row["origin"] for row in origins.catalogue()["examples"]]
    for origin in names or examples:
        yield re.sub(r"\W+", "_", origin).strip("_"), origins.opened(origin)


def export(
    folder: Path,
    wanted: Sequence[tuple[str, Mapping[str, Any]]],
    worker: LabWorker,
    *,
    device: str,
    gpus: Sequence[str],
    done: Callable[[str], None] = lambda title: None,
) -> list[Path]:
    """Write a page for each job and an index; return the paths."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ArgumentError(
            "the folder is not empty", got=str(folder), next="name a new or an empty folder"
        )
    made = [(f"{name}.html", *_page(job, worker, device, gpus, done)) for name, job in wanted]
    folder.mkdir(parents=True, exist_ok=True)
    for address, text, _, _ in made:
        files.write(folder / address, text)
    rows = [(address, title, says) for address, _, title, says in made]
    files.write(folder / INDEX, page.index(rows))
    return [folder / INDEX, *(folder / row[0] for row in rows)]


def _page(
    job: Mapping[str, Any],
    worker: LabWorker,
    device: str,
    gpus: Sequence[str],
    done: Callable[[str], None],
) -> tuple[str, str, str]:
    """The page of a job, its title, and what the index says of it."""
    asked = {**job, "device": device, "gpus": list(gpus)}
    answer = worker.ask(EXPORT, asked)
    if not answer["ok"]:
        raise ArgumentError(
            "a kernel cannot be exported", where=str(job["title"]), got=answer["error"]["text"]
        )
    done(str(job["title"]))
    return answer["page"], str(job["title"]), answer["says"]
