"""Fixtures of the op library's tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(autouse=True, scope="session")
def early_kernels_wait() -> Iterator[None]:
    """A kernel that is launched early waits for those before it; the simulated GPU has no order
    in which that could be seen.
    """
    pytest.importorskip("torch")
    from weft.ops.core import runner

    simulated = runner._simulated

    def checked(plan: Any, count: int) -> Any:
        for step in plan.steps:
            assert not step.early or "griddepcontrol.wait" in step.kernel.ptx, step.kernel
        return simulated(plan, count)

    runner._simulated = checked
    yield
    runner._simulated = simulated


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Calls are made and recorded by the C++ code, on the simulated GPU as well."""
    from weft.ops.core.native import build, loaded

    monkeypatch.setattr(loaded, "ON_CPU", True)
    found = build.started()
    assert found.wait() is not None, found.failure
    _forget()  # plans know whether the C++ code may learn them
    yield
    _forget()


def _forget() -> None:
    from weft.ops.core.native import trace

    for op in trace.OPS.values():
        op.forget()  # type: ignore[attr-defined]
