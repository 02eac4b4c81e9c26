"""What the parts of the counting code may ask of the watcher that calls them."""

from __future__ import annotations

from typing import Any, Protocol

from weft.device.sim.observe import Touch, Watched
from weft.ir import Val


class CountingRows(Protocol):
    """Rows of counters in the worker's memory: `watcher.CountWatcher`."""

    e: Watched

    def counters(self) -> Val:
        """The counters of the worker."""

    def launch(self) -> Val:
        """What all workers of the launch share."""

    def row_of(self, **what: Any) -> Val:
        """A row for what the present instruction does in one memory."""

    def describe(self, touch: Touch, **more: Any) -> Val:
        """A row for an access."""

    def near_row(self, touch: Touch, **more: Any) -> Val:
        """A row for what an access does in shared memory."""
