"""What tests of whole programs need: nvcc, or a reason to skip them."""

from __future__ import annotations

import pytest

from weft.errors import MissingDependency
from weft.source import toolkit


def missing() -> str:
    """What is not installed; empty where nvcc is there."""
    try:
        toolkit.find()
    except MissingDependency as error:
        return error.what
    return ""


needed = pytest.mark.skipif(bool(missing()), reason=missing() or "nvcc is there")
