"""Every test of the backend begins without compiled graphs, and keeps its own in memory.

Tests change constants that no key has.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest


class Memory:
    """A cache that one test has for itself."""

    def __init__(self) -> None:
        self.entries: dict[tuple[str, str], bytes] = {}

    def get(self, kind: str, key: str) -> bytes | None:
        return self.entries.get((kind, key))

    def put(self, kind: str, key: str, data: bytes) -> bool:
        self.entries[kind, key] = data
        return True


@pytest.fixture(autouse=True)
def graphs_in_memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "on_disk" in request.fixturenames:
        return
    pytest.importorskip("torch")
    from weft.torch_backend.disk import entries

    monkeypatch.setattr(entries, "cache", Memory())


@pytest.fixture(autouse=True)
def without_graphs() -> Iterator[None]:
    torch = pytest.importorskip("torch")
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()
