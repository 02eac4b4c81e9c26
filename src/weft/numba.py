"""`import weft.numba`: where there is no GPU, Numba's kernels run on the simulated one."""

from weft.frontends.numba import install

__all__ = ["install"]

install(force=False)
