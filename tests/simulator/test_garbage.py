"""Python's garbage collector pauses while code is made, and runs again afterwards."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator

import pytest

from weft import garbage


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_afterwards_as_it_was(enabled: bool) -> None:
    try:
        if not enabled:
            gc.disable()
        with garbage.paused():
            with garbage.paused():
                assert not gc.isenabled()
            assert not gc.isenabled()
        assert gc.isenabled() is enabled
    finally:
        gc.enable()


def test_the_last_thread_enables_it() -> None:
    inside, leave = threading.Event(), threading.Event()

    def work() -> None:
        with garbage.paused():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=work)
    with garbage.paused():
        thread.start()
        inside.wait()
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of processes with threads
def test_a_fork_collects() -> None:
    with garbage.paused():
        child = os.fork()
        if child == 0:
            os._exit(not gc.isenabled())
        assert os.waitpid(child, 0)[1] == 0
    assert gc.isenabled()


@pytest.fixture
def nothing_frozen() -> Iterator[None]:
    """The session's own objects are frozen before and after the test."""
    gc.unfreeze()
    yield
    gc.freeze()


def test_lasting_objects_are_old_afterwards(nothing_frozen: None) -> None:
    with garbage.paused(lasting=True):
        made = [[0] for _ in range(100)]
    old = {id(x) for x in gc.get_objects(generation=2)}
    assert {id(x) for x in made} <= old and gc.get_freeze_count() == 0


def test_frozen_objects_stay_frozen(nothing_frozen: None) -> None:
    made = [0]
    gc.freeze()
    with garbage.paused(lasting=True):
        pass
    assert gc.get_freeze_count() and all(x is not made for x in gc.get_objects())
