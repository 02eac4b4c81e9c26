"""Formats the GPUs that kernels can run on as tables."""

from __future__ import annotations

from collections.abc import Iterator

from weft.report.words import Block, Cell, Table
from weft.values.devices import Devices, RealGpu, SimulatedGpu

_SIMULATED = ("GPU", "sim:", "CC", "SMs", "cores", "MHz", "GiB", "GB/s", "L2 MiB", "shm KiB")
_REAL = ("GPU", "device", "arch", "SMs", "MHz", "GiB", "L2 MiB", "shm KiB", "threads", "registers")


def devices(found: Devices) -> Iterator[Block]:
    """The GPUs that can be simulated, then those of this machine."""
    (default,) = (gpu for gpu in found.simulated if gpu.default)
    yield "Simulated GPUs", "bold"
    yield Table(_SIMULATED, list(map(_simulated, found.simulated)), _SIMULATED[3:])
    yield "\nMHz: base-boost. shm: largest shared memory of a block.", ""
    yield (
        'Select a model with device="sim:rtx3070" or --device sim:rtx3070. Default (*): '
        f"the limits of the {default.name}, code compiled for {default.compile_for}.",
        "",
    )
    yield "\nReal GPUs", "bold"
    if found.driver is None:
        yield f"none: {found.absence}", ""
        return
    yield Table(_REAL, list(map(_real, found.real)), _REAL[3:])
    yield "\nMHz: SM and memory clock. shm, threads, registers: largest number of a block.", ""
    cuda, ptx = (".".join(map(str, v)) for v in (found.driver.cuda, found.driver.ptx))
    yield (
        f"Driver {found.driver.driver or 'of unknown version'}: CUDA {cuda}, PTX up to {ptx}. "
        "Kernels run where their arrays are.",
        "",
    )


def _simulated(g: SimulatedGpu) -> list[Cell]:
    return [
        g.name.removeprefix("GeForce "),
        (f"{g.key} *", "bold green") if g.default else g.key,
        ".".join(map(str, g.compute_capability)),
        str(g.sms),
        f"{g.cores:,}",
        "-".join(str(mhz) for mhz in (g.base_mhz, g.boost_mhz) if mhz),
        f"{g.memory / 2**30:.4g}",
        f"{g.memory_gb_per_s:,.0f}",
        f"{g.l2 / 2**20:.4g}",
        f"{g.shared_per_block / 2**10:.0f}",
    ]


def _real(g: RealGpu) -> list[Cell]:
    return [
        g.name.removeprefix("NVIDIA "),
        f"gpu:{g.number}",
        g.machine,
        str(g.sms),
        f"{g.clock_mhz} / {g.memory_mhz}",
        f"{g.memory / 2**30:.4g}",
        f"{g.l2 / 2**20:.4g}",
        f"{g.shared_per_block / 2**10:.0f}",
        str(g.max_threads_per_block),
        str(g.registers_per_block),
    ]
