"""Dispatches Triton launches: CUDA tensors to Triton's own driver, CPU tensors to the simulator.

Triton chooses its target before it examines the arguments. Its own driver therefore stays active,
and the launcher makes the choice: for CPU tensors the same source is compiled again, to PTX.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import triton
from triton.runtime import driver as active_driver

from weft.frontends.triton import pipeline


class Simulator(Protocol):
    """The parts of `driver.SimDriver` that are needed here."""

    current: int

    def get_current_target(self) -> Any:
        """The target that Triton compiles for."""


def real_driver() -> Any:
    """Triton's own driver, or None without a GPU."""
    try:
        driver = active_driver.default
    except RuntimeError:  # "0 active drivers"
        return None
    return driver


@contextmanager
def in_charge(simulator: Simulator) -> Iterator[None]:
    """Make the simulated GPU Triton's active driver inside of the block."""
    before = active_driver.active
    active_driver.set_active(simulator)
    try:
        with pipeline.installed():
            yield
    finally:
        active_driver.set_active(before)


class DispatchingDriver:
    """Triton's own driver with another launcher."""

    def __init__(self, real: Any, simulator: Simulator) -> None:
        self._real, self.simulator = real, simulator

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def launcher_cls(self, src: Any, metadata: Any) -> _Chooser:
        """Triton calls this like a class."""
        return _Chooser(self._real, self.simulator, src, metadata)


class _Chooser:
    """A launcher that selects the device by the location of the tensors."""

    def __init__(self, real: Any, simulator: Simulator, src: Any, metadata: Any) -> None:
        self._launch = real.launcher_cls(src, metadata)
        self._simulator, self._src, self._metadata = simulator, src, metadata
        self._simulated: dict[int, Any] = {}

    def __call__(self, x: int, y: int, z: int, *rest: Any) -> None:
        args = rest[6:]
        if not on_host(args):
            self._launch(x, y, z, *rest)
            return
        stream, _, _, launch_metadata, enter, leave = rest[:6]
        kernel = self._compiled()
        kernel.run(
            x, y, z, stream, kernel.function, kernel.packed_metadata, launch_metadata, enter, leave,
            *args,
        )  # fmt: skip

    def _compiled(self) -> Any:
        """The kernel for the current simulated GPU, with its handles."""
        simulator = self._simulator
        kernel = self._simulated.get(simulator.current)
        if kernel is None:
            with in_charge(simulator):
                kernel = triton.compile(
                    self._src, target=simulator.get_current_target(), options=self._options()
                )
                kernel._init_handles()
            self._simulated[simulator.current] = kernel
        return kernel

    def _options(self) -> dict[str, Any]:
        """The compile options of the launch; others depend on the target."""
        names = ("num_warps", "num_stages", "debug", "enable_fp_fusion", "sanitize_overflow")
        return {n: getattr(self._metadata, n) for n in names if hasattr(self._metadata, n)}


def on_host(values: Any) -> bool:
    """True if the arguments have tensors in host memory and none on a GPU."""
    kinds = set()
    for value in values:
        if isinstance(value, tuple):
            value = value[0] if value else None
        # Tensor descriptors and reinterpreted tensors wrap a tensor.
        value = getattr(value, "base", value)
        device = getattr(value, "device", None)
        if device is not None:
            kinds.add(getattr(device, "type", ""))
    return "cpu" in kinds and "cuda" not in kinds
