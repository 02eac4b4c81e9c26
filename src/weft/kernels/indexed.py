"""`k[grid, block, shared_mem, stream, cluster](*args)` and its keyword form, for all front ends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from weft.errors import LaunchError
from weft.kernels.configured import Configured

Dim = int | Sequence[int]
L = TypeVar("L", bound=Configured)


_OPTIONS = ("grid", "block", "shared_mem", "stream", "cluster", "time_limit", "sanitize")


class Indexed(ABC, Generic[L]):
    """A kernel that is launched with a grid and a block: `_configured` makes the launch."""

    name: str

    @abstractmethod
    def _configured(
        self, grid: Any, block: Any, shared_mem: Any, stream: object, cluster: Any
    ) -> L:
        """Make the launch `k[grid, block, shared_mem, stream, cluster]`."""

    def __getitem__(self, config: Any) -> L:
        items = config if isinstance(config, tuple) else (config,)
        if not 2 <= len(items) <= 5:
            raise LaunchError(
                f"{self.name}[...] takes a grid and a block",
                got=f"{len(items)} values",
                allowed="kernel[grid, block], kernel[grid, block, shared_mem, stream, cluster]",
            )
        grid, block, shared_mem, stream, cluster = (*items, None, None, None)[:5]
        shared_mem = 0 if shared_mem is None else shared_mem
        return self._configured(grid, block, shared_mem, stream, cluster)

    def __call__(
        self,
        *args: Any,
        grid: Dim | None = None,
        block: Dim | None = None,
        shared_mem: int = 0,
        stream: object = None,
        cluster: Dim | None = None,
        time_limit: float | None = None,
        sanitize: bool = False,
        **named: Any,
    ) -> None:
        """The keyword form of `k[grid, block, shared_mem, stream, cluster](*args)`."""
        if named:
            from weft.kernels.suggest import unexpected

            raise unexpected(self.name, named, _OPTIONS)
        if grid is None or block is None:
            missing = " and ".join(
                what for what, size in (("grid", grid), ("block", block)) if size is None
            )
            raise LaunchError(
                f"{self.name} is launched with a grid and a block",
                got=f"{self.name}(...) without {missing}",
                allowed=f"{self.name}[grid, block](...), {self.name}(..., grid=..., block=...)",
                next=f"for n elements, one a thread: {self.name}[weft.cdiv(n, 256), 256](...)",
            )
        launch = self[grid, block, shared_mem, stream, cluster]
        launch(*args, time_limit=time_limit, sanitize=sanitize)
