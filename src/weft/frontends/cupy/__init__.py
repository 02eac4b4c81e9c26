"""CuPy without CuPy: `weft.cupy` and `weft.cupyx`, which a script imports as `cupy`, `cupyx`.

Kernels run on the simulated GPU. NumPy computes functions of arrays, SciPy those of `cupyx.scipy`.

    host_objects.py  objects of the device that the host keeps, and functions of them
    arrays.py        the array; indices.py reads its indices
    modules.py       modules with the names of NumPy or SciPy; names.py has the exceptions
    random.py extras.py  functions that differ from NumPy's
    memory.py pinned.py  memory, pools and allocators; array_memory.py: the memory of arrays
    cuda.py          the names of `cupy.cuda`: device.py stream.py runtime.py
    raw.py           CUDA C++ as a kernel or a module
    elementwise.py   ElementwiseKernel
    reduction.py     ReductionKernel
    parameters.py    their declarations: `T x, raw float32 y`
    jit/             `cupyx.jit`: kernels in Python
"""

SUPPLIES = ("cupy", "cupyx")
"""The packages that a script finds here if they are not installed."""
