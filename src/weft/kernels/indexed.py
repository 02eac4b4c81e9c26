"""`k[grid, block, shared_mem, stream](*args)` and its keyword form, whichever front end k is of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from weft.errors import LaunchError
from weft.kernels.configured import Configured

Dim = int | Sequence[int]
L = TypeVar("L", bound=Configured)


class Indexed(ABC, Generic[L]):
    """A kernel that is launched with a grid and a block: `_configured` makes the launch."""

    name: str

    @abstractmethod
    def _configured(self, grid: Any, block: Any, shared_mem: Any, stream: object) -> L:
        """What `k[grid, block, shared_mem, stream]` is."""

    def __getitem__(self, config: Any) -> L:
        items = config if isinstance(config, tuple) else (config,)
        if not 2 <= len(items) <= 4:
            raise LaunchError(
                f"{self.name}[...] takes a grid and a block",
                got=f"{len(items)} values",
                allowed="kernel[grid, block], kernel[grid, block, shared_mem, stream]",
            )
        grid, block, shared_mem, stream = (*items, None, None)[:4]
        return self._configured(grid, block, 0 if shared_mem is None else shared_mem, stream)

    def __call__(
        self,
        *args: Any,
        grid: Dim,
        block: Dim,
        shared_mem: int = 0,
        stream: object = None,
        time_limit: float | None = None,
        sanitize: bool = False,
    ) -> None:
        """The keyword form of `k[grid, block, shared_mem, stream](*args)`."""
        self[grid, block, shared_mem, stream](*args, time_limit=time_limit, sanitize=sanitize)
