"""Fixtures of the op library's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


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
