"""`import weft.numba`: from then on Numba's kernels run on the simulated GPU where there is none."""

from weft.frontends.numba import install

install()
