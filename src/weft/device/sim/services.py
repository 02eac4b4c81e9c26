"""Host services for running kernels: printf, assert, malloc and free."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class Services:
    """Interface the launcher uses (being replaced by the real one)."""

    failed: BaseException | None = None
    address: int = 0

    def table(self, rows: Sequence[tuple[int, int, int, int]]) -> NDArray[np.int64]:
        """The allocation table of a launch: 32-byte rows, with room for device malloc."""
        return np.array(rows, np.int64)

    def begin(self, arena: object, compiled: object, block: object, table: object) -> None:
        """A launch starts."""
        self.failed = None

    def end(self) -> None:
        """A launch has ended well."""
