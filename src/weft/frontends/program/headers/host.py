"""Compiles host code with g++'s precompiled headers."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from weft.frontends.program.headers import folder as kept
from weft.frontends.program.headers.device import NAME, UNIT, Side
from weft.frontends.program.headers.split import split


def object_file(command: Sequence[str], source: str, out: Path, identity: str) -> str | None:
    """Compile a C++ source to an object; return what g++ prints, or None if it was not compiled.

    The list of the files that were read is beside the object.
    """
    parts = split(source)
    if parts is None:
        return None
    options = [word for word in command if not NAME.fullmatch(word)] + [*parts.options]
    with (
        contextlib.suppress(OSError),  # a full disk
        kept.alone(identity, parts.headers, options) as folder,
    ):
        if folder is not None and _precompiled(options, parts.headers.encode(), folder):
            unit = folder / "unit.cpp"
            text = f'#include "{folder}/headers.h"\n# {parts.line} "{source}"\n{parts.rest}'
            unit.write_text(text, encoding="utf-8")
            files = kept.own(kept.files(folder), command)
            kept.write_list(out.with_suffix(".d"), [source, *files])
            return kept.succeeds([*command, *parts.options, "-c", str(unit), "-o", str(out)])
    return None


def shortened(step: str, side: Side, identity: str) -> None:
    """Replace the headers in `cudafe++`'s output by an #include of what g++ precompiled of them.

    step  nvcc's last one, which compiles that output
    """
    path = Path(side.folder) / f"{UNIT}.cudafe1.cpp"
    text = path.read_text("latin-1")  # any bytes, unchanged
    source = re.escape(side.source.encode().decode("latin-1"))
    begin = re.search(rf'^# \d+ "{source}"$', text, re.MULTILINE)
    if begin is None:
        return
    headers, rest = text[: begin.start()], text[begin.start() :]
    words = shlex.split(step)
    words[words.index("-o") :] = []
    options = [w for w in words if w not in ("-c", str(path)) and not NAME.fullmatch(w)]
    with (
        contextlib.suppress(OSError),  # a full disk
        kept.alone(identity, options, headers) as folder,
    ):
        if folder is not None and _precompiled(options, headers.encode("latin-1"), folder):
            text = f'#include "{folder}/headers.h"\n{rest}'
            path.write_text(text, encoding="latin-1")


def _precompiled(command: Sequence[str], headers: bytes, folder: Path) -> bool:
    """Precompile headers if they are not there; False if g++ cannot."""
    done = folder / "headers.h.gch"
    if done.exists():
        return True
    header, listing, made = (folder / name for name in ("headers.h", "headers.d", "headers.tmp"))
    header.write_bytes(headers)
    files = ["-x", "c++-header", str(header), "-MD", "-MF", str(listing), "-o", str(made)]
    if kept.succeeds([*command, *files]) is None:
        return False
    kept.keep_files(folder, listing)
    made.rename(done)
    return True
