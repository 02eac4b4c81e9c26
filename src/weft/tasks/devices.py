"""The GPUs that kernels can run on."""

from __future__ import annotations

from dataclasses import asdict

from weft.device import driver, models
from weft.device.gpu import system
from weft.device.gpu.facts import facts
from weft.values.devices import Devices, DriverVersions, RealGpu, SimulatedGpu


def devices() -> Devices:
    """The GPUs that can be simulated and the GPUs of this machine."""
    simulated = tuple(_simulated(name) for name in models.names())
    real = tuple(map(_real, range(driver.count())))
    return Devices(simulated, real, _versions() if real else None, no_gpu())


def no_gpu() -> str:
    """The reason why there is no GPU, or ""."""
    return "" if driver.count() else driver.absence()


def _simulated(name: str) -> SimulatedGpu:
    m = models.get(name)
    default = m.key == models.DEFAULT
    derived = {"cores": m.cores, "fp32_tflops": m.fp32_tflops, "fp64_tflops": m.fp64_tflops}
    return SimulatedGpu(
        name=m.name,
        key=m.key,
        compute_capability=m.compute_capability,
        sms=m.sms,
        cores=m.cores,
        base_mhz=m.base_mhz,
        boost_mhz=m.boost_mhz,
        memory=m.memory,
        memory_gb_per_s=m.memory_gb_per_s,
        l2=m.l2,
        shared_per_block=m.shared_per_block,
        compile_for=m.compile_for,
        default=default,
        facts={**asdict(m), **derived, "device": f"sim:{m.key}", "default": default},
    )


def _real(number: int) -> RealGpu:
    g = facts(number)
    return RealGpu(
        name=g.name,
        number=number,
        machine=g.machine,
        sms=g.sms,
        clock_mhz=g.clock_mhz,
        memory_mhz=g.memory_mhz,
        memory=g.memory,
        l2=g.l2,
        shared_per_block=g.shared_per_block,
        max_threads_per_block=g.max_threads_per_block,
        registers_per_block=g.registers_per_block,
        facts={**asdict(g), "device": f"gpu:{number}", "arch": g.machine},
    )


def _versions() -> DriverVersions:
    cuda = driver.version() // 1000, driver.version() % 1000 // 10
    return DriverVersions(system.driver_version() or "", cuda, driver.ptx_limit())
