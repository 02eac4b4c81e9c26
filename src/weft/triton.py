"""`import weft.triton`: from here on, Triton kernels that are given CPU tensors are simulated.

CUDA tensors, where there is a GPU, keep going to Triton's own driver.
"""

from weft.frontends.addresses import allow
from weft.frontends.triton import install, install_beside

__all__ = ["allow", "install"]

install_beside()
