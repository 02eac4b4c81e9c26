"""Options that several verbs have, and how their values are read."""

from __future__ import annotations

import warnings
from typing import Annotated

import typer

from weft.cli import show
from weft.device.selection import Selection, select, selected

AUTO = "auto"
"""The device of a verb that times where there is a GPU and counts elsewhere."""

Gpu = Annotated[
    str | None, typer.Option("--gpu", hidden=True, help="Deprecated: use --device sim:MODEL.")
]


def device(word: str | Selection, gpu: str | None = None) -> Selection:
    """Read `--device`; the deprecated `--gpu` still names a model and prints a warning."""
    if gpu is None:
        return select(word)
    # By default Python hides a DeprecationWarning that is not raised in `__main__`: it is caught
    # and printed as weft's own.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DeprecationWarning)
        chosen = selected(word, gpu, name="--gpu")
    for one in caught:
        show.warning(str(one.message))
    return chosen
