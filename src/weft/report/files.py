"""Writes rendered results to files."""

from __future__ import annotations

from pathlib import Path

from weft.errors import Error


def write(path: str | Path, text: str) -> None:
    """Write a text file; raise weft.Error if that fails."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise Error("cannot write the file", where=str(path), got=error.strerror or "") from None
