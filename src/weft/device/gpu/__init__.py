"""A real GPU as a place to run PTX: `load(image, device)` gives kernels that take raw parameters.

Nothing here is imported before an argument is on a GPU or one is asked for by name; cuda.core and
the driver are loaded at that moment.
"""

from weft.device.gpu.module import GpuModule, load
from weft.device.gpu.pending import synchronize

__all__ = ["GpuModule", "load", "synchronize"]
