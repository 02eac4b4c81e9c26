"""Requirements of tests of whole programs: nvcc, or a reason to skip them."""

from __future__ import annotations

import pytest

from weft.errors import MissingDependency
from weft.source import toolkit


def missing() -> str:
    """The missing tool; empty if nvcc is installed."""
    try:
        toolkit.find()
    except MissingDependency as error:
        return error.what
    return ""


needed = pytest.mark.skipif(bool(missing()), reason=missing() or "nvcc is there")
