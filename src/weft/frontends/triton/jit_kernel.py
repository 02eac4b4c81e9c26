"""`@triton.jit` functions as weft kernels, compiled by their launches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.device.models import GpuModel
from weft.device.time_limit import limited, within
from weft.errors import ArgumentError, LaunchError
from weft.frontends.triton import dispatch
from weft.frontends.triton.driver import simulating
from weft.frontends.triton.launcher import capturing
from weft.kernels import Plain
from weft.kernels.code import KernelCode
from weft.source.resources import Resources

Grid = int | Sequence[int] | Callable[[dict[str, Any]], Sequence[int]]


class TritonKernel:
    """A Triton kernel; `k[grid](*args, BLOCK=128, num_warps=4)` runs it where the tensors are.

    Triton compiles a variant for each set of types, constants and options. `variants` lists the
    simulated ones; `ptx` and `resources` belong to the latest.
    """

    def __init__(self, fn: Any, model: GpuModel, *, fast: bool = False) -> None:
        """`fast`: tensor cores by plain FMA."""
        self.fn, self.model, self.fast = fn, model, fast
        self.name = str(getattr(fn, "__name__", "kernel"))
        self.variants: list[KernelCode] = []

    def __repr__(self) -> str:
        return f"<weft.TritonKernel {self.name} on {self.model.name}>"

    def __getitem__(self, grid: Grid) -> TritonLaunch:
        return TritonLaunch(self, grid)

    def compile(self, *args: Any, **options: Any) -> KernelCode:
        """Compile the kernel for these arguments without running it."""
        return self[1].plain(*args, **options)[0].kernel

    @property
    def latest(self) -> KernelCode:
        """The variant that was compiled or launched last."""
        if not self.variants:
            raise LaunchError(
                f"{self.name} is not compiled yet: its code depends on the arguments",
                next=f"launch it, or call {self.name}.compile(*args, BLOCK=...)",
            )
        return self.variants[-1]

    @property
    def ptx(self) -> str:
        """The PTX of the latest variant."""
        return self.latest.ptx

    @property
    def resources(self) -> Resources:
        """The report of Triton's `ptxas` for the latest variant."""
        return self.latest.resources

    def note(self, variant: KernelCode) -> None:
        """Make a variant the latest."""
        # Moved to the end: the latest is the last.
        if variant in self.variants:
            self.variants.remove(variant)
        self.variants.append(variant)


class TritonLaunch:
    """A Triton kernel with its grid; call it with the arguments."""

    def __init__(self, kernel: TritonKernel, grid: Grid) -> None:
        self.kernel = kernel
        self.grid = (grid,) if isinstance(grid, int) else grid

    @property
    def name(self) -> str:
        return self.kernel.name

    @property
    def threads(self) -> None:
        """Not chosen by the user: Triton divides the work of a program among its threads."""
        return None

    def names(self, args: Sequence[Any], options: Mapping[str, Any]) -> list[str]:
        """Names of the positional arguments; Triton validates keyword arguments."""
        names: list[str] = self.kernel.fn.arg_names
        if len(args) > len(names):
            raise ArgumentError(
                f"{self.name} takes {len(names)} arguments",
                got=str(len(args)),
                allowed=f"{self.name}({', '.join(names)})",
            )
        return names[: len(args)]

    def __call__(
        self, *args: Any, time_limit: float | None = None, sanitize: bool = False, **options: Any
    ) -> None:
        """Run the grid; on the simulated GPU it returns when all is done.

        With `sanitize` every access is checked, and SanitizerError raised when something is found.
        """
        if sanitize or time_limit is not None:
            limit = limited(time_limit)
            launch, arguments = within(limit, self.name, lambda: self.plain(*args, **options))
            launch(*arguments, time_limit=limit, sanitize=sanitize)
            return
        k = self.kernel
        if not dispatch.on_host((*args, *options.values())):
            k.fn[self.grid](*args, **options)
            return
        with simulating(k.model, k.fast):
            k.note(k.fn[self.grid](*args, **options).function)

    def plain(self, *args: Any, **options: Any) -> Plain:
        """(CUDA launch, all its arguments), for checks and profiles.

        Nothing runs, except the launches that tune an autotuned kernel.
        """
        k = self.kernel
        if not dispatch.on_host((*args, *options.values())):
            raise ArgumentError(
                f"{self.name} can be observed on the simulated GPU only",
                got="no tensor in host memory",
                next="pass copies on the CPU: x.cpu()",
            )
        with simulating(k.model, k.fast), capturing() as captured:
            k.fn[self.grid](*args, **options)
        launch, arguments = captured[-1]
        k.note(launch.kernel)
        return launch, arguments
