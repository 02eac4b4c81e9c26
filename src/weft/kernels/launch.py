"""Configured launches: a kernel with its grid, run where the arrays are."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from weft.device.base import Allocation, LaunchConfig, Place
from weft.device.sim.run.launch import Plan
from weft.device.sim.run.settings import Request
from weft.device.time_limit import limited, within
from weft.errors import ArgumentError
from weft.kernels.configured import Plain, in_order
from weft.kernels.suggest import unexpected

if TYPE_CHECKING:
    from weft.device.gpu.native import Native
    from weft.device.gpu.plan import GpuPlan
    from weft.device.gpu.quick import Quick
    from weft.device.sim.run.observation import Observer
    from weft.kernels.kernel import Kernel


@dataclass(slots=True, eq=False)
class Launch:
    """A kernel with its grid; call it with the arguments."""

    kernel: Kernel
    config: LaunchConfig
    stream: object = None
    _plan: Plan | None = field(default=None, repr=False)
    _gpus: dict[int, GpuPlan] = field(default_factory=dict, repr=False)
    _quick: Quick | None = field(default=None, repr=False)
    _native: Native | None = field(default=None, repr=False)
    _shortest: Callable[..., int] | None = field(default=None, repr=False)

    def __call__(
        self, *args: Any, time_limit: float | None = None, sanitize: bool = False, **named: Any
    ) -> None:
        """Runs the grid where the arrays are.

        On the simulated GPU it returns when all is done, on a real one as soon as it is launched.
        With `sanitize` every access is checked, and SanitizerError raised when something is found.
        """
        if named:
            raise unexpected(self.name, named, ("time_limit", "sanitize"))
        if time_limit is not None:
            time_limit = limited(time_limit)
        if sanitize:
            self._sanitize(args, time_limit)
            return
        shortest = self._shortest
        if shortest is None or time_limit is not None or shortest(*args):
            quick = self._quick
            if quick is None or time_limit is not None or not quick(args):
                self._run(args, time_limit)

    @property
    def name(self) -> str:
        return self.kernel.name

    @property
    def threads(self) -> int:
        """Of a block."""
        return math.prod(self.config.block)

    def names(self, args: Sequence[Any], options: Mapping[str, Any]) -> list[str]:
        """What the arguments are called; they are given in order."""
        packer = self.kernel.packer
        return in_order(self.name, packer.names, args, options, packer.signature())

    def plain(self, *args: Any) -> Plain:
        """Itself: the launches of other front ends have one like this inside."""
        return self, args

    def bind(self, *args: Any) -> Callable[[], None]:
        """A function that launches with these arguments, which are checked once."""
        params, memory, keep, place = self.kernel.packer.pack(args)
        if self._is_simulated(memory, place):
            return functools.partial(self._simulate, params, memory, keep, None)
        if 0 in self.config.grid:
            return lambda: None
        return self._gpu_plan(place).bind(params, place, args)

    def _run(self, args: tuple[Any, ...], time_limit: float | None) -> None:
        params, memory, keep, place = self.kernel.packer.pack(args)
        if self._plan is not None and place is None:  # simulated before
            self._plan.run(params, memory, keep, time_limit)
            return
        if self._is_simulated(memory, place):
            self._simulate(params, memory, keep, time_limit)
            return
        plan = self._gpu_plan(place)
        if 0 not in self.config.grid:
            plan.run(params, place, time_limit)
            if place is not None:
                self._learn(plan, args, place.library)

    def _learn(self, plan: GpuPlan, args: tuple[Any, ...], library: str) -> None:
        """Takes shorter ways from now on to launches like this one."""
        self._quick = plan.quick(args, library)
        if self._native is None and (found := plan.native(args)) is not None:
            self._native, self._shortest = found, found.launch

    def _simulate(
        self, params: bytes, memory: list[Allocation], keep: object, time_limit: float | None
    ) -> None:
        if self._plan is None:
            self.kernel.check(self.config)
            if 0 in self.config.grid:
                return
            self._plan = within(time_limit, self.name, lambda: self.kernel.plan(self.config))
        self._plan.run(params, memory, keep, time_limit)

    def observe(self, observer: Observer, *args: Any, time_limit: float | None = None) -> None:
        """The same launch under an observer."""
        limit = limited(time_limit)
        params, memory, keep, place = self.kernel.packer.pack(args)
        if place is not None:
            raise ArgumentError(
                f"{self.kernel.name} can be observed on the simulated GPU only",
                got=f"arrays on gpu:{place.device}",
                next="pass copies on the CPU: x.cpu()",
            )
        self.kernel.check(self.config)
        if 0 not in self.config.grid:
            plan = within(limit, self.name, lambda: self.kernel.plan(self.config, observer))
            plan.run(params, memory, keep, limit)

    def _sanitize(self, args: tuple[Any, ...], time_limit: float | None) -> None:
        from weft.device.sim.tools.sanitizer.session import Strict  # nobody else needs its code

        params, memory, keep, place = self.kernel.packer.pack(args)
        if not self._is_simulated(memory, place):
            raise ArgumentError(
                f"{self.kernel.name} can be sanitized on the simulated GPU only",
                got="arrays on a real GPU",
                next="pass copies on the CPU: x.cpu()",
            )
        self.kernel.check(self.config)
        if 0 not in self.config.grid:
            plan = self._plan or within(
                time_limit, self.name, lambda: self.kernel.plan(self.config)
            )
            Strict().run(Request(plan, params, memory, keep, time_limit))

    def _is_simulated(self, memory: list[Allocation], place: Place | None) -> bool:
        home = self.kernel.home
        if home is not None and place is None and memory:
            raise ArgumentError(
                f"{self.kernel.name} was made for a real GPU, its arrays are in host memory",
                got=f"device='gpu:{home}' and arrays on the CPU",
                next="move them, e.g. x.cuda(), or leave device= out: the device follows the data",
            )
        return home is None and place is None

    def _gpu_plan(self, place: Place | None) -> GpuPlan:
        device = place.device if place is not None else self.kernel.home or 0
        plan = self._gpus.get(device)
        if plan is None:
            plan = self._gpus[device] = self.kernel.gpu_plan(self.config, self.stream, device)
        return plan
