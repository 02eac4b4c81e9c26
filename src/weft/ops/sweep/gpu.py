"""Requires a GPU, and describes it for records."""

from __future__ import annotations

import platform
from datetime import date

import torch

from weft.device import driver
from weft.errors import MissingDependency
from weft.measure.bench import clocks
from weft.ops.core import source


def need(what: str, instead: str) -> None:
    """Raise if torch has no GPU; `instead` names an alternative without one."""
    if torch.cuda.is_available():
        return
    reason = "this PyTorch is built without CUDA" if driver.count() else driver.absence()
    raise MissingDependency(
        f"{what} measures on a GPU, and there is none to use here",
        got=reason,
        allowed="an NVIDIA GPU, its driver, and a PyTorch built for CUDA",
        next=instead,
    )


def about() -> dict[str, str]:
    """The machine that figures were measured on, and the kernels."""
    return {
        "date": date.today().isoformat(),
        "gpu": torch.cuda.get_device_name(),
        "driver": clocks.driver_version(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "kernels": source.digest(),
    }


def present() -> str:
    """The torch device that kernels are chosen for: the GPU, else the simulated one."""
    return "cuda" if torch.cuda.is_available() else "cpu"
