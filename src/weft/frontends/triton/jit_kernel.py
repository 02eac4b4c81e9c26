"""What `weft.kernel` gives for a `@triton.jit` function: a kernel compiled by its launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.device.models import GpuModel
from weft.errors import LaunchError
from weft.frontends.triton.driver import simulating
from weft.frontends.triton.launcher import Variant
from weft.source.resources import Resources

Grid = int | Sequence[int] | Callable[[dict[str, Any]], Sequence[int]]


class TritonKernel:
    """A Triton kernel; `k[grid](*args, BLOCK=128, num_warps=4)` runs it.

    Triton compiles it anew for other types, constants and options: `variants` has them all, and
    `ptx` and `resources` are those of the latest.
    """

    def __init__(self, fn: Any, model: GpuModel) -> None:
        self.fn, self.model = fn, model
        self.name = str(getattr(fn, "__name__", "kernel"))
        self.variants: list[Variant] = []

    def __repr__(self) -> str:
        return f"<weft.TritonKernel {self.name} on {self.model.name}>"

    def __getitem__(self, grid: Grid) -> TritonLaunch:
        return TritonLaunch(self, grid)

    def compile(self, *args: Any, **options: Any) -> Variant:
        """The code for such arguments, without running it."""
        with simulating(self.model):
            compiled = self.fn.warmup(*args, grid=(1,), **options)
            compiled._init_handles()
        return self._note(compiled)

    @property
    def latest(self) -> Variant:
        """What was compiled last."""
        if not self.variants:
            raise LaunchError(
                f"{self.name} is not compiled yet: its code depends on the arguments",
                next=f"launch it, or call {self.name}.compile(*args, BLOCK=...)",
            )
        return self.variants[-1]

    @property
    def ptx(self) -> str:
        return self.latest.ptx

    @property
    def resources(self) -> Resources:
        return self.latest.resources

    def _note(self, compiled: Any) -> Variant:
        found = compiled.function
        if not isinstance(found, Variant):
            raise LaunchError(f"{self.name} was compiled for a real GPU", got=type(found).__name__)
        if found in self.variants:
            self.variants.remove(found)
        self.variants.append(found)
        return found


class TritonLaunch:
    """A Triton kernel with its grid; call it with the arguments."""

    def __init__(self, kernel: TritonKernel, grid: Grid) -> None:
        self.kernel, self.grid = kernel, grid

    def __call__(self, *args: Any, **options: Any) -> None:
        """Runs the grid and returns when it is done."""
        k = self.kernel
        with simulating(k.model):
            k._note(k.fn[self._grid()](*args, **options))

    def _grid(self) -> Any:
        return (self.grid,) if isinstance(self.grid, int) else self.grid
