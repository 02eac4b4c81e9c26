"""Describe the GPU for the cost models."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from weft.device import models
from weft.device.selection import select

_FP32_PER_SM = {(7, 0): 64, (7, 5): 64, (8, 0): 64}
"""Single-precision results per clock and SM where it is not 128."""
_REACHED = 0.88
"""The fraction of the theoretical bandwidth that a copy reaches on an H200."""


@dataclass(frozen=True)
class Target:
    """One GPU, real or simulated. Rates are per second, sizes in bytes.

    tf32    operations of dense tensor cores, for architectures like Ampere or Hopper
    launch  seconds per additional launch of an eager call, with its buffer
    """

    name: str
    real: bool
    capability: tuple[int, int]
    sms: int
    threads_per_sm: int
    shared_per_block: int
    shared_per_sm: int
    l2: int
    bandwidth: float
    fp32: float
    tf32: float
    launch: float = 6e-6

    @property
    def threads(self) -> int:
        """Threads that are resident at once."""
        return self.sms * self.threads_per_sm


def target(device: Any) -> Target:
    """The target for a torch device: its GPU, or the simulated one for the CPU."""
    return _real(device.index or 0) if device.type == "cuda" else _simulated(models.DEFAULT)


def named(device: str) -> Target:
    """The target that a device word names: "sim:rtx3070", "gpu"."""
    chosen = select(device)
    chosen.require("choose kernels for", next='device="sim:h200" chooses for a model')
    return _simulated(chosen.simulated.key) if chosen.number is None else _real(chosen.number)


@functools.cache
def _real(number: int) -> Target:
    from weft.device.gpu.facts import facts  # needs a driver

    g = facts(number)
    per_sm = _FP32_PER_SM.get(g.compute_capability, 128)
    return Target(
        name=g.name, real=True, capability=g.compute_capability, sms=g.sms,
        threads_per_sm=g.max_threads_per_sm, shared_per_block=g.shared_per_block,
        shared_per_sm=g.shared_per_sm, l2=g.l2,
        # Double data rate: two transfers per clock.
        bandwidth=_REACHED * 2e6 * g.memory_mhz * g.memory_bus_bits / 8,
        fp32=2e6 * g.clock_mhz * g.sms * per_sm, tf32=8 * 2e6 * g.clock_mhz * g.sms * per_sm,
    )  # fmt: skip


@functools.cache
def _simulated(key: str) -> Target:
    m = models.get(key)
    return Target(
        name=m.name, real=False, capability=m.compute_capability, sms=m.sms,
        threads_per_sm=m.max_threads_per_sm, shared_per_block=m.shared_per_block,
        shared_per_sm=m.shared_per_sm, l2=m.l2, bandwidth=_REACHED * 1e9 * m.memory_gb_per_s,
        fp32=1e12 * m.fp32_tflops, tf32=8e12 * m.fp32_tflops,
    )  # fmt: skip
