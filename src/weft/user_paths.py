"""Checks the paths that users give."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from weft.errors import ArgumentError


def must_exist(path: Path, suffixes: Sequence[str] = (".py",), what: str = "a Python file") -> None:
    """Raise ArgumentError if the file does not exist, and suggest a similar name."""
    if not path.is_file():
        names = [p.name for p in path.parent.glob("*") if p.suffix in suffixes and p.is_file()]
        near = difflib.get_close_matches(path.name, names, 1)
        raise ArgumentError(
            "this is a folder" if path.is_dir() else "no such file",
            got=str(path),
            allowed=what,
            next=f"did you mean '{path.with_name(near[0])}'?" if near else "",
        )
