"""Python's garbage collector pauses while code is made, and runs again afterwards."""

from __future__ import annotations

import gc
import os
import threading

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
