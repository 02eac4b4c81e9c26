"""CuPy's kernels without CuPy: RawKernel, RawModule, ElementwiseKernel, ReductionKernel.

`import weft.cupy as cp` gives these classes, and NumPy under CuPy's names: arrays are NumPy arrays,
which the simulated GPU uses directly. A script under `weft run` imports it as `cupy` where CuPy is
not installed.

    raw.py           CUDA C++ as a kernel or a module
    elementwise.py   ElementwiseKernel
    reduction.py     ReductionKernel
    parameters.py    their declarations: `T x, raw float32 y`
    arrays.py        arrays and NumPy's functions
"""

SUPPLIES = "cupy"
"""The package that a script finds here if it is not installed."""
