"""The objects that users hold: modules, kernels and configured launches."""

from weft.kernels.configured import Configured
from weft.kernels.indexed import Dim, Indexed
from weft.kernels.kernel import Kernel, cdiv
from weft.kernels.launch import Launch, Plain
from weft.kernels.module import CudaModule, Module, cuda, load_ptx, synchronize

__all__ = [
    "Configured",
    "CudaModule",
    "Dim",
    "Indexed",
    "Kernel",
    "Launch",
    "Module",
    "Plain",
    "cdiv",
    "cuda",
    "load_ptx",
    "synchronize",
]
