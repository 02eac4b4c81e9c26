"""A worker of the lab, and a running lab with it, for each module of tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")
def worker() -> Iterator[Any]:
    from weft.lab.process import LabWorker

    one = LabWorker(limit=30, memory=4 << 30)
    yield one
    one.close()


@pytest.fixture(scope="module")
def lab(worker: Any) -> Iterator[Any]:
    from lab_client import running  # needs uvicorn, without which the modules are skipped

    with running(worker) as one:
        yield one
