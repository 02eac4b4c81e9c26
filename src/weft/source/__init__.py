"""Stage 1 of 5: compiles user code to PTX.

`compile_cuda` turns CUDA C++ into a `Ptx` value through NVRTC, with no GPU and no driver;
`read_ptx` reads PTX from other compilers.
"""

from weft.source.from_cuda import compile_cuda
from weft.source.from_ptx import read_ptx

__all__ = ["compile_cuda", "read_ptx"]
