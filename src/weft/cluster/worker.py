"""The actor that does tasks on a node of a Ray cluster, and the actor that keeps its notes.

Ray sends these classes by value, so that a node without weft can answer that it has none. They
therefore import weft inside their methods.
"""

from __future__ import annotations

import platform
import socket
import sys
from collections.abc import Callable
from typing import Any


def facts() -> dict[str, str]:
    """The versions that must be equal on all nodes, and the name of this machine."""
    found = {"host": socket.gethostname(), "python": platform.python_version()}
    try:
        from weft.device.version import generator
    except ModuleNotFoundError as error:
        return {**found, "weft": f"none ({error})"}
    # The package itself is above all layers, and it is imported by now.
    return {**found, "weft": f"{sys.modules['weft'].__version__} (code {generator()[:12]})"}


class Worker:
    """A process of the cluster that does one task after another."""

    def __init__(self) -> None:
        self._work: Callable[[Any], Any] | None = None

    def hello(self) -> dict[str, str]:
        """Describe this process; called before anything of weft is sent to it."""
        return facts()

    def describe(self, about: Callable[[], dict[str, str]] | None) -> dict[str, str]:
        """Describe the device of this process."""
        return {} if about is None else about()

    def begin(self, start: Callable[[], Callable[[Any], Any]], key: str, notes: Any) -> None:
        """Prepare for tasks; parts of them are noted under `key`."""
        import ray

        from weft.cluster import notes as own

        own.send = lambda part: ray.get(notes.put.remote(key, part))
        self._work = start()

    def do(self, task: Any, banned: frozenset[str]) -> Any:
        """Do a task without the parts that are banned."""
        from weft.cluster import notes as own

        own.banned = banned
        assert self._work is not None
        return self._work(task)


class Notes:
    """The newest note of each worker; it is on the node of the driver, and outlives workers."""

    def __init__(self) -> None:
        self._notes: dict[str, str] = {}

    def put(self, key: str, part: str) -> None:
        """Store the part that a worker is at."""
        self._notes[key] = part

    def take(self, key: str) -> str:
        """Return and remove the newest note of a worker; "" if there is none."""
        return self._notes.pop(key, "")
