"""Keeps the counters of sampled launches in a folder, so that a changed model needs no simulation.

Files are pickles of this version of weft, for this machine alone.
"""

from __future__ import annotations

import gzip
import hashlib
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path

from weft.measure.profile.prediction.demand import SampledLaunch


def path(folder: Path, name: str) -> Path:
    """The file of a call or a rung by its name."""
    return folder / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.pkl.gz"


def launches(
    folder: Path | None, name: str, count: Callable[[], Sequence[SampledLaunch]]
) -> list[SampledLaunch]:
    """The launches of this name that the folder has; else count them, and keep them there."""
    if folder is None:
        return list(count())
    file = path(folder, name)
    if not file.is_file():
        found, part = list(count()), file.with_suffix(".part")
        folder.mkdir(parents=True, exist_ok=True)
        with gzip.open(part, "wb", compresslevel=1) as out:
            pickle.dump(found, out)
        part.rename(file)
        return found
    with gzip.open(file) as data:
        kept: list[SampledLaunch] = pickle.load(data)
    return kept
