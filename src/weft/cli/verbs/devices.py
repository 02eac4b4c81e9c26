"""`weft devices`: list the GPUs that kernels can run on."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.text import Text

from weft.cli import show
from weft.device import driver, models
from weft.device.gpu import system
from weft.device.gpu.facts import GpuFacts, facts
from weft.device.models import GpuModel

_COLUMNS = (
    "GPU", "sim:", "CC", "SMs", "cores", "MHz", "GiB", "GB/s", "L2 MiB", "shm KiB",
)  # fmt: skip
_REAL = (
    "GPU", "device", "arch", "SMs", "MHz", "GiB", "L2 MiB", "shm KiB", "threads", "registers",
)  # fmt: skip


def run(json: show.Json = False) -> None:
    """List the GPUs that can be simulated and the GPUs of this machine."""
    simulated = [models.get(name) for name in models.names()]
    if json:
        real = [{**asdict(g), "device": f"gpu:{g.number}", "arch": g.machine} for g in _real()]
        show.data({"simulated": [_facts(m) for m in simulated], "real": real})
        return
    show.line("Simulated GPUs", "bold")
    show.table(_COLUMNS, map(_row, simulated), right=_COLUMNS[3:])
    show.line("\nMHz: base-boost. shm: largest shared memory of a block.")
    show.line(
        f'Select a model with device="sim:rtx3070" or --device sim:rtx3070. Default (*): {_why()}'
    )
    show.line("\nReal GPUs", "bold")
    _show_real()


def _real() -> list[GpuFacts]:
    return [facts(number) for number in range(driver.count())]


def _show_real() -> None:
    if not driver.count():
        show.line(f"none: {driver.absence()}")
        return
    show.table(_REAL, map(_real_row, _real()), right=_REAL[3:])
    show.line("\nMHz: SM and memory clock. shm, threads, registers: largest number of a block.")
    major, minor = driver.ptx_limit()
    show.line(
        f"Driver {system.driver_version() or 'of unknown version'}: CUDA "
        f"{driver.version() // 1000}.{driver.version() % 1000 // 10}, PTX up to {major}.{minor}. "
        "Kernels run where their arrays are."
    )


def _real_row(g: GpuFacts) -> list[str | Text]:
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


def _why() -> str:
    model = models.get(models.DEFAULT)
    return f"the limits of the {model.name}, code compiled for {model.compile_for}."


def _facts(m: GpuModel) -> dict[str, Any]:
    derived = {"cores": m.cores, "fp32_tflops": m.fp32_tflops, "fp64_tflops": m.fp64_tflops}
    default = m.key == models.DEFAULT
    return {**asdict(m), **derived, "device": f"sim:{m.key}", "default": default}


def _row(m: GpuModel) -> list[str | Text]:
    default = m.key == models.DEFAULT
    clocks = (m.base_mhz, m.boost_mhz)
    return [
        m.name.removeprefix("GeForce "),
        Text(f"{m.key} *", "bold green") if default else m.key,
        ".".join(map(str, m.compute_capability)),
        str(m.sms),
        f"{m.cores:,}",
        "-".join(str(mhz) for mhz in clocks if mhz),
        f"{m.memory / 2**30:.4g}",
        f"{m.memory_gb_per_s:,.0f}",
        f"{m.l2 / 2**20:.4g}",
        f"{m.shared_per_block / 2**10:.0f}",
    ]
