"""Checks, profiles and sanitizers of several threads at once leave no session behind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

import weft
from weft.device.sim.run import settings
from weft.measure.check.diagnosis import diagnose


def overlapping(enter: Callable[[Callable[[], None]], object]) -> None:
    """Enter blocks in two threads; the first one to begin is the first one to end."""
    begun, both_begun, one_ended = (threading.Event() for _ in range(3))

    def in_first() -> None:
        begun.set()
        assert both_begun.wait(60)

    def in_second() -> None:
        both_begun.set()
        assert one_ended.wait(60)

    def second() -> None:
        assert begun.wait(60)
        enter(in_second)

    threads = [threading.Thread(target=enter, args=(in_first,)), threading.Thread(target=second)]
    for thread in threads:
        thread.start()
    threads[0].join()
    one_ended.set()
    threads[1].join()


def in_block(block: Callable[[], AbstractContextManager[object]]) -> Callable[..., None]:
    def enter(body: Callable[[], None]) -> None:
        with block():
            body()

    return enter


@pytest.mark.parametrize(
    "enter",
    [diagnose, in_block(weft.sanitize), in_block(lambda: weft.sanitize(raises=False))],
    ids=["diagnose", "sanitize", "sanitize without raising"],
)
def test_no_session_stays(enter: Callable[..., object]) -> None:
    before = settings.current
    overlapping(enter)
    assert settings.current is before


def test_a_diagnosis_is_of_its_own_thread() -> None:
    seen: list[object] = []

    def look() -> None:
        thread = threading.Thread(target=lambda: seen.append(settings.active()))
        thread.start()
        thread.join()

    before = settings.active()
    diagnose(look)
    assert seen == [before]
