"""The simulated GPU that CuPy's kernels run on: the one `weft run --device` names."""

from __future__ import annotations

from weft.device.models import DEFAULT, GpuModel, get
from weft.frontends import embedded


def device() -> str:
    """Return the device for `weft.cuda`."""
    return embedded.device()


def model() -> GpuModel:
    """Return the GPU's sizes and limits."""
    return get(device().partition(":")[2] or DEFAULT)
