"""Configured launches: a kernel with its grid, run where the arrays are."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from weft.device.base import Allocation, Device, LaunchConfig, LaunchTarget, Packed, PreparedLaunch
from weft.device.time_limit import limited
from weft.kernels.argument_names import in_order
from weft.kernels.code import KernelCode
from weft.records import dataclass


@dataclass(slots=True, eq=False)
class Launch:
    """A kernel with its grid and block: `k[grid, block]`. Call it with the arguments.

    time_limit   seconds that the launch may take on the simulated GPU
    sanitize     check every memory access; findings raise `SanitizerError`

    >>> launch = module.scale[weft.cdiv(4, 32), 32]
    >>> launch(x, 1.0, 4)
    >>> launch(x, 1.0, 4, sanitize=True)
    >>> print(launch.name, launch.threads)
    scale 32
    """

    kernel: KernelCode
    config: LaunchConfig
    stream: object = None
    _prepared: dict[Device, PreparedLaunch] = field(default_factory=dict, repr=False)
    _on_host: PreparedLaunch | None = field(default=None, repr=False)
    """For arrays in host memory: those launches look nothing else up."""
    _native: Callable[..., int] | None = field(default=None, repr=False)
    _python: Callable[[Sequence[Any]], bool] | None = field(default=None, repr=False)
    """The fast paths of the last device that has any."""

    def __call__(
        self, *args: Any, time_limit: float | None = None, sanitize: bool = False, **named: Any
    ) -> None:
        """Run the grid where the arrays are.

        On the simulated GPU it returns when the grid has run, on a real one as soon as it is
        launched. With `sanitize` every access is checked, and findings raise SanitizerError.
        """
        if named:
            from weft.kernels.suggest import unexpected

            raise unexpected(self.name, named, ("time_limit", "sanitize"))
        if time_limit is not None:
            time_limit = limited(time_limit)
        if sanitize:
            self._sanitize(args, time_limit)
            return
        # The fastest path first. Each one refuses what it does not know, and the last one explains
        # it. The first two return at once, so they cannot keep a time limit.
        native = self._native
        if native is None or time_limit is not None or native(*args):
            python = self._python
            if python is None or time_limit is not None or not python(args):
                self._run(args, time_limit)

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.kernel.name

    @property
    def threads(self) -> int:
        """The number of threads of a block."""
        return math.prod(self.config.block)

    def names(self, args: Sequence[Any], options: Mapping[str, Any]) -> list[str]:
        """The names of the arguments, which are given in order."""
        packer = self.kernel.packer
        return in_order(self.name, packer.names, args, options, packer.signature())

    def plain(self, *args: Any) -> Plain:
        """Itself: the launches of other front ends have one like this inside."""
        return self, args

    def bind(self, *args: Any) -> Callable[[], None]:
        """A function that launches with these arguments, which are checked once."""
        packed = self.kernel.packer.pack(args)
        prepared = self._prepare(packed)
        return prepared.bind(args, packed)

    def reaching(self, memory: Sequence[Allocation], *args: Any) -> None:
        """Run the grid with memory that the kernel reaches by address only, e.g. from a table.

        A real GPU lets a kernel access any memory of its process; the simulated one checks.
        """
        block, known, keep, place = self.kernel.packer.pack(args)
        packed = block, [*known, *memory], keep, place
        self._prepare(packed).run(args, packed, None)

    def observe(self, observer: object, *args: Any, time_limit: float | None = None) -> None:
        """The same launch under an observer: on the simulated GPU, whatever the kernel is for."""
        limit, kernel = limited(time_limit), self.kernel
        packed = kernel.packer.pack(args)
        device = kernel.simulator if packed[3] is None else kernel.device_of(packed)
        kernel.check(self.config, device)
        target = LaunchTarget(kernel.program.on(device), kernel.entry, self.config)
        device.observe(target, packed, observer, limit)

    def _run(self, args: tuple[Any, ...], time_limit: float | None) -> None:
        packed = self.kernel.packer.pack(args)
        prepared = self._on_host if packed[3] is None else None
        if prepared is None:
            prepared = self._prepare(packed)
        fast = prepared.run(args, packed, time_limit)
        if fast is not None:
            self._native, self._python = fast

    def _prepare(self, packed: Packed) -> PreparedLaunch:
        """The launch on the device where the arrays are."""
        kernel = self.kernel
        device = kernel.device_of(packed)
        prepared = self._prepared.get(device)
        if prepared is None:
            kernel.check(self.config, device)
            target = LaunchTarget(kernel.program.on(device), kernel.entry, self.config)
            prepared = device.prepare(target, kernel.packer, self.stream)
            self._prepared[device] = prepared
            # The shortcut skips `device_of`, which refuses host arrays of a kernel for a real GPU.
            if device is kernel.simulator and kernel.home is None:
                self._on_host = prepared
        return prepared

    def _sanitize(self, args: tuple[Any, ...], time_limit: float | None) -> None:
        packed = self.kernel.packer.pack(args)
        prepared = self._prepare(packed)
        self.kernel.device_of(packed).sanitize(prepared, packed, time_limit)


Plain = tuple[Launch, Sequence[Any]]
"""A launch and all its arguments; front ends add some to those that the user passes."""
