"""Compiles host code with g++'s precompiled headers."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from weft.frontends.program.headers import folder as kept
from weft.frontends.program.headers.device import UNIT, Side
from weft.frontends.program.headers.split import split

_NAME = re.compile(r"-DTORCH_EXTENSION_NAME=.*")


def object_file(command: Sequence[str], source: str, out: Path, identity: str) -> str | None:
    """Compile a C++ source to an object; return what g++ prints, or None if it was not compiled.

    The list of the files that were read is beside the object.
    """
    parts = split(Path(source).read_text("utf-8", errors="replace"))
    if parts is None:
        return None
    options = [word for word in command[1:] if not _NAME.fullmatch(word)]
    place = os.path.dirname(source)
    with kept.alone(identity, parts.headers, place, command[0], options) as folder:
        if folder is None:
            return None
        if not (folder / "headers.h.gch").exists():
            made = _precompiled([command[0], *options, "-iquote", place], parts.headers, folder)
            if not made:
                return None
        text = f'#include "{folder}/headers.h"\n# {parts.line} "{source}"\n{parts.rest}'
        (folder / "unit.cpp").write_text(text, encoding="utf-8")
        unit = ["-iquote", place, "-c", str(folder / "unit.cpp"), "-o", str(out)]
        printed = kept.succeeds([*command, *unit])
        files = kept.own(kept.files(folder), command)
        kept.write_list(out.with_suffix(".d"), [source, *files])
        return printed


def shortened(step: str, side: Side, identity: str) -> None:
    """Replace the headers in `cudafe++`'s output by an #include of what g++ precompiled of them.

    step  nvcc's last one, which compiles that output
    """
    path = Path(side.folder) / f"{UNIT}.cudafe1.cpp"
    text = path.read_text("utf-8", errors="surrogateescape")
    begin = re.search(rf'^# \d+ "{re.escape(side.source)}"$', text, re.MULTILINE)
    if begin is None:
        return
    headers, rest = text[: begin.start()], text[begin.start() :]
    words = shlex.split(step)
    words[words.index("-o") :] = []
    options = [w for w in words[1:] if w not in ("-c", str(path)) and not _NAME.fullmatch(w)]
    with kept.alone(identity, words[0], options, headers) as folder:
        if folder is None:
            return
        if not (folder / "headers.h.gch").exists() and not _precompiled(
            [words[0], *options], headers, folder
        ):
            return
        text = f'#include "{folder}/headers.h"\n{rest}'
        path.write_text(text, encoding="utf-8", errors="surrogateescape")


def _precompiled(command: Sequence[str], headers: str, folder: Path) -> bool:
    header, listing, made = (folder / name for name in ("headers.h", "headers.d", "headers.tmp"))
    header.write_text(headers, encoding="utf-8", errors="surrogateescape")
    files = ["-x", "c++-header", str(header), "-MD", "-MF", str(listing), "-o", str(made)]
    if kept.succeeds([*command, *files]) is None:
        return False
    kept.keep_files(folder, listing)
    made.rename(folder / "headers.h.gch")
    return True
