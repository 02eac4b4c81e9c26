"""Folders of the tests and of the project."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
SUPPORT = TESTS / "support"
ROOT = TESTS.parent
