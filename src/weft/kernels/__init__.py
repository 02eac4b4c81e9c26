"""What a user holds: modules, kernels and configured launches."""

from weft.kernels.configured import Configured, Plain
from weft.kernels.indexed import Dim, Indexed
from weft.kernels.kernel import Kernel, cdiv
from weft.kernels.launch import Launch
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
