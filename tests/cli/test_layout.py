"""The layout of the code: folders small enough to read their names at once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import weft

MOST = 22
"""Modules of a folder; `__init__.py` does not count."""


def test_no_folder_has_many_modules() -> None:
    root = Path(weft.__file__).parent
    modules = (p.relative_to(root) for p in root.rglob("*.py") if p.name != "__init__.py")
    sizes = Counter(str(p.parent) for p in modules if p.parts[0] != "ladders")
    assert len(sizes) > 20
    assert {folder: n for folder, n in sizes.items() if n > MOST} == {}
