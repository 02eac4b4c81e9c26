"""Loads a ladder: a folder with `op.py` and rungs `rung_NN_name.cu|py`."""

from __future__ import annotations

import difflib
import importlib.util
import sys
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path

from weft.climbing import rung as rungs
from weft.climbing.rung import Rung
from weft.errors import ArgumentError
from weft.measure.check import user_file as files
from weft.measure.op import Op
from weft.values.climb import LadderText, RungText

HOME = Path(__file__).parent.parent / "ladders"


@dataclass(frozen=True)
class Ladder:
    """An operation and its rungs, in order of their numbers."""

    op: Op
    rungs: tuple[Rung, ...]
    path: Path

    @property
    def about(self) -> str:
        """One line on what it computes: the first of op.py's docstring."""
        first = (self.path / "op.py").read_text("utf-8").split('"""')
        return first[1].strip().splitlines()[0] if len(first) > 1 else self.op.signature

    def _repr_html_(self) -> str:
        """The notebook's view: the rungs and their ideas."""
        rows = "".join(
            f"<tr><td>{escape(r.title)}</td><td>{escape(r.language)}</td>"
            f'<td style="text-align:left">{escape(r.idea)}</td></tr>'
            for r in self.rungs
        )
        return f"<div>{escape(self.about)}</div><table>{rows}</table>"

    @property
    def text(self) -> str:
        """The text of `ladder.md`."""
        file = self.path / "ladder.md"
        return file.read_text("utf-8") if file.is_file() else ""

    @property
    def texts(self) -> LadderText:
        """The texts that reports show beside results."""
        read = tuple(
            RungText(r.title, r.lesson, r.path.name, r.path.read_text("utf-8")) for r in self.rungs
        )
        shown = f"weft climb {self.path.name} --html FILE"
        page = shown if self.path.parent == HOME else str(self.path / "ladder.md")
        return LadderText(self.about, self.op.signature, self.text, page, read)


def names() -> list[str]:
    """The names of the ladders that come with weft."""
    return sorted(folder.parent.name for folder in HOME.glob("*/op.py"))


def find(name_or_path: str) -> Ladder:
    """Load a ladder by name or folder."""
    path = Path(name_or_path)
    folder = path if _is_ladder(path) else HOME / name_or_path
    if not _is_ladder(folder):
        near = difflib.get_close_matches(name_or_path, names(), 1)
        raise ArgumentError(
            "no such ladder",
            got=name_or_path,
            allowed=f"{', '.join(names())}, or a folder with op.py",
            next=f"did you mean '{near[0]}'?" if near else "`weft new ladder NAME` makes a folder",
        )
    files = sorted((*folder.glob("rung_*.cu"), *folder.glob("rung_*.py")), key=lambda p: p.name)
    if not files:
        raise ArgumentError("a ladder has rungs", where=str(folder), next="add rung_00_naive.cu")
    read = tuple(rungs.read(path) for path in files)
    # Files are sorted by name, so equal numbers are adjacent.
    for one, other in pairwise(read):
        if one.number == other.number:
            raise ArgumentError(
                "two rungs have one number",
                where=str(folder),
                got=f"{one.path.name}, {other.path.name}",
                next=f"call one of them rung_{read[-1].number + 1:02}_...",
            )
    return Ladder(_operation(folder), read, folder)


def _is_ladder(folder: Path) -> bool:
    try:
        return (folder / "op.py").is_file()
    except (OSError, ValueError):  # a name that the file system cannot have
        return False


def _operation(folder: Path) -> Op:
    # Ladders in different folders may have equal names.
    name = f"weft_op_{folder.resolve().name}_{abs(hash(folder.resolve()))}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, folder / "op.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception as error:  # user code may raise anything
            raise files.raised(folder / "op.py", error) from error
        sys.modules[name] = module
    op = getattr(sys.modules[name], "op", None)
    if not isinstance(op, Op):
        raise ArgumentError(
            "a ladder's op.py defines `op`", where=str(folder / "op.py"), next="op = weft.Op(...)"
        )
    return op
