"""A kernel: `k[grid, block, shared_mem, stream, cluster](*args)` runs it."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from weft import hooks
from weft.device import devices
from weft.device.base import LaunchConfig
from weft.errors import ArgumentError, LaunchError
from weft.kernels.code import KernelCode
from weft.kernels.indexed import Dim, Indexed
from weft.kernels.launch import Launch
from weft.quoting import quoted

if TYPE_CHECKING:
    from weft.kernels.op_options import OpOptions

REMEMBERED = 256
"""The number of launch configurations that a kernel keeps prepared."""


def cdiv(a: int, b: int) -> int:
    """Return a / b, rounded up: the number of blocks of b threads that cover a elements.

    >>> print(weft.cdiv(1000, 256))
    4
    """
    try:
        return -(-a // b)
    except (TypeError, ZeroDivisionError) as error:
        raise ArgumentError("cdiv takes two whole numbers", got=f"{a!r}, {b!r}: {error}") from None


class Kernel(KernelCode, Indexed[Launch]):
    """One kernel. `k[grid, block]` is a launch, `k[grid, block](*args)` runs it.

    `k[grid, block, shared_mem, stream, cluster]` also sets the bytes of dynamic shared memory, the
    stream, and the blocks of a cluster. Grid, block and cluster are numbers or tuples of up to
    three.

    >>> k = module.scale
    >>> k[1, 32](x, 0.5, 4)
    >>> k(x, 2.0, 4, grid=1, block=32)
    >>> print(k.name, k.resources.registers > 0)
    scale True
    """

    def __repr__(self) -> str:
        return f"<weft.Kernel {self.packer.signature()}>"

    def variable(self, name: str, dtype: Any = None, device: int | str | None = None) -> Any:
        """A `__device__` or `__constant__` variable of its module, as Module.variable gives it."""
        from weft.kernels import variables  # few kernels have some

        where = devices.named(device, self.simulator, self.home)
        return variables.view(self.program, where, name, dtype)

    def __getitem__(self, config: Any) -> Launch:
        try:
            kept: Launch = self._launches[config]
            return kept
        except (KeyError, TypeError):  # a new one, or a list
            launch = super().__getitem__(config)
        # Bounded: a program may launch with a new grid each time. `resources` clears the launches.
        if _constant(config) and len(self._launches) < REMEMBERED:
            self._launches[config] = launch
        return launch

    def bind(
        self,
        grid: Dim,
        block: Dim,
        *args: Any,
        shared_mem: int = 0,
        stream: object = None,
        cluster: Dim | None = None,
    ) -> Callable[[], None]:
        """A function that launches with these arguments repeatedly: for hot loops.

        Arguments are checked and packed once. Arrays are kept alive and their contents may change,
        but not their memory: a tensor that is resized stays bound to its old memory.
        """
        return self[grid, block, shared_mem, stream, cluster].bind(*args)

    def _configured(
        self, grid: Any, block: Any, shared_mem: Any, stream: object, cluster: Any
    ) -> Launch:
        """Make the launch `k[grid, block, shared_mem, stream, cluster]`."""
        config = LaunchConfig(
            _dims("grid", grid),
            _dims("block", block),
            _count("shared_mem", shared_mem),
            None if cluster is None else _dims("cluster", cluster),
        )
        if stream is not None:
            devices.check_stream(stream)
        return Launch(self, config, stream)

    def as_op(self, name: str, schema: str = "", **options: Unpack[OpOptions]) -> Any:
        """This kernel as an op of PyTorch, e.g. "mine::square": `weft.as_op` has the options."""
        return hooks.as_op(self, name, schema, **options)


def _constant(config: Any) -> bool:
    """Return whether a configuration is immutable; a list or a tensor may change later."""
    if isinstance(config, tuple):
        return all(_constant(item) for item in config)
    return config is None or type(config) is int


def _count(what: str, value: Any) -> int:
    # `n / 256` is a float in Python; it is taken where it is a whole number.
    whole = isinstance(value, float | np.floating) and value == value // 1
    try:
        number = int(value) if whole else operator.index(value)
    except (TypeError, OverflowError):
        number = -1
    if number < 0:
        raise LaunchError(
            f"{what} must be a whole number, not negative",
            got=quoted(value),
            next="weft.cdiv(n, block) gives the number of blocks",
        )
    return number


def _dims(what: str, value: Any) -> tuple[int, int, int]:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    items = tuple(value) if isinstance(value, tuple | list) else (value,)
    if not 1 <= len(items) <= 3:
        raise LaunchError(f"{what} has one to three sizes", got=quoted(value))
    x, y, z = (*(_count(what, v) for v in items), 1, 1)[:3]
    return x, y, z
