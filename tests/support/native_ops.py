"""Shared code of the tests of the op library's C++ code."""

from __future__ import annotations

import shutil

import pytest

import devices

MARKS = [
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++"),
    # One compilation of torch's headers for all: the workers of pytest-xdist must not repeat it.
    pytest.mark.xdist_group("native"),
    pytest.mark.usefixtures("native"),
]


def where() -> str:
    return "cuda" if devices.current.name == "gpu" else "cpu"
