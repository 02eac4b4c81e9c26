"""Reads PTX of other compilers from a file or a string."""

from __future__ import annotations

import re
from pathlib import Path

from weft.errors import PtxError, expect
from weft.source import signature
from weft.values import Ptx


def read_ptx(text_or_path: str | Path) -> Ptx:
    """Read PTX from text, from a `pathlib.Path`, or from a string that ends in `.ptx`."""
    text, origin = _read(text_or_path)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise PtxError(
            "half of a surrogate pair is not a character",
            where=f"{origin}:{text.count(chr(10), 0, error.start) + 1}",
            got=ascii(text[error.start]),
        ) from None
    target = re.search(r"^\s*\.target\s+(\w+)", text, re.MULTILINE)
    if target is None:
        raise PtxError(
            "no .target directive: this is not a PTX module",
            where=origin,
            got=repr(text[:40]),
            allowed="text that begins with .version, .target and .address_size",
        )
    return Ptx(
        text=text,
        arch=target[1],
        origin=origin,
        entries=signature.spellings(text),
        signatures=signature.signatures(text),
    )


def _read(text_or_path: str | Path) -> tuple[str, str]:
    expect("PTX", text_or_path, str, Path, allowed="PTX as a string, or a path")
    if isinstance(text_or_path, str) and not re.fullmatch(r"[^\n]+\.ptx", text_or_path):
        return text_or_path, "<ptx>"
    try:
        return Path(text_or_path).read_text(encoding="utf-8"), str(text_or_path)
    except (OSError, UnicodeDecodeError) as error:
        raise PtxError(
            "cannot read the PTX file", where=str(text_or_path), got=str(error)
        ) from error
