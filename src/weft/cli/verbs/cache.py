"""`weft cache`: manage the cache of compiled code on disk."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from weft import cache
from weft.cli import show
from weft.errors import CacheError
from weft.report.words import rounded_size

_KINDS = {
    "ptx": "PTX of CUDA C++ sources",
    "summary": "kernels and variables of PTX",
    "sim": "machine code of kernels",
    "report": "registers and spills of kernels",
}


class CacheAction(StrEnum):
    """The actions of `weft cache`."""

    status = "status"
    clear = "clear"
    path = "path"


def run(
    action: Annotated[
        CacheAction, typer.Argument(help="What to do with the cache.")
    ] = CacheAction.status,
    json: show.Json = False,
) -> None:
    """Show the cache of compiled code, clear it, or print its path."""
    {CacheAction.status: _status, CacheAction.clear: _clear, CacheAction.path: _path}[action](json)


def _status(json: bool) -> None:
    state = cache.status()
    if json:
        kinds = {kind: vars(usage) for kind, usage in state.kinds.items()}
        show.data(
            {"path": state.path, "trouble": state.trouble, "limit": cache.LIMIT, "kinds": kinds}
        )
    else:
        rows = [
            (_KINDS.get(kind, kind), f"{usage.entries:,}", rounded_size(usage.bytes))
            for kind, usage in sorted(state.kinds.items())
        ]
        show.line(state.path, "bold")
        show.table(("kind", "entries", "size"), rows, right=("entries", "size"))
        used, limit = rounded_size(state.bytes), rounded_size(cache.LIMIT)
        show.line(f"\n{used} of {limit}. Least recently used entries are removed first.")
    if state.trouble:
        raise CacheError(
            "the cache cannot be used, so every process compiles again",
            where=state.path,
            got=state.trouble,
            next="set WEFT_CACHE_DIR to a folder that you, and only you, can write",
        )


def _clear(json: bool) -> None:
    removed = cache.clear()
    if json:
        show.data({"path": str(cache.directory()), "removed": removed})
    else:
        show.line(f"removed {removed} entries from {cache.directory()}")


def _path(json: bool) -> None:
    if json:
        show.data({"path": str(cache.directory())})
    else:
        show.line(str(cache.directory()))
