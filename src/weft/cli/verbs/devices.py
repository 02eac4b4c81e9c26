"""`weft devices`: the GPUs a kernel can run on."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.text import Text

from weft.cli import show
from weft.device import models
from weft.device.models import GpuModel

_COLUMNS = (
    "GPU", "sim:", "CC", "SMs", "cores", "MHz", "GiB", "GB/s", "L2 MiB", "shm KiB",
)  # fmt: skip
_NO_GPU = "none: this version runs kernels on simulated GPUs only"


def run(json: show.Json = False) -> None:
    """Show the simulated GPUs and the real ones."""
    found = [models.get(name) for name in models.names()]
    if json:
        show.data({"simulated": [_facts(m) for m in found], "real": []})
        return
    show.line("Simulated GPUs", "bold")
    show.table(_COLUMNS, map(_row, found), right=_COLUMNS[3:])
    show.line("\nMHz: base-boost. shm: the most shared memory a block may have.")
    show.line(f'Pick one with weft.cuda(..., device="sim:rtx3070"). * is the default: {_why()}')
    show.line("\nReal GPUs", "bold")
    show.line(_NO_GPU)


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
