"""Compiles the device code of a whole program's file with nvcc."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from weft.frontends.program import flags as user_flags
from weft.frontends.program.library import HEADERS
from weft.frontends.program.toolkit import find
from weft.source import read_ptx
from weft.values import Ptx

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_MAIN = re.compile(r"\b(?:int|auto)\s+main\s*\(")


def is_program(path: Path) -> bool:
    """True if the file has a `main`; NVRTC cannot compile such a file."""
    # A missing file is reported later, with the same error as for kernels.
    text = path.read_text(errors="replace") if path.is_file() else ""
    return _MAIN.search(_COMMENT.sub("", text)) is not None


def compile_device_code(path: Path, *, arch: str, flags: Sequence[str] = ()) -> Ptx:
    """The device code of a program's file."""
    with tempfile.TemporaryDirectory(prefix="weft-") as folder:
        out = Path(folder) / "program.ptx"
        options = [f"-arch={arch.replace('sm_', 'compute_')}", "-lineinfo", *HEADERS]
        arguments = [*options, *user_flags.wanted(flags), str(path), "-o", str(out)]
        find().run(["-ptx", *arguments], what=f"compile {path}")
        return read_ptx(out)
