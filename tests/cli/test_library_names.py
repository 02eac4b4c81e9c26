"""The script that names what libraries lack writes nothing where it finds no headers."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from folders import ROOT

sys.path.insert(0, str(ROOT / "scripts"))

import library_names


@pytest.mark.parametrize("arguments", [["--help"], [], ["missing"]], ids=str)
def test_a_refused_call_changes_no_file(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without arguments, and in a folder without headers, it once left an empty file."""
    folder = tmp_path / "libraries"
    shutil.copytree(library_names.FOLDER, folder)
    before = {path.name: path.read_bytes() for path in folder.glob("*_rest.h")}
    assert len(before) > 10 and all(before.values())
    monkeypatch.setattr(library_names, "FOLDER", folder)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        library_names.main(arguments)
    assert {path.name: path.read_bytes() for path in folder.glob("*_rest.h")} == before
