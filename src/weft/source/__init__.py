"""Stage 1 of 5: compiles user code to PTX.

`compile_cuda` turns CUDA C++ into a `Ptx` value through NVRTC, with no GPU and no driver;
`read_ptx` reads PTX from other compilers.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.source.from_cuda import compile_cuda
    from weft.source.from_ptx import read_ptx


def _import(name: str) -> Any:
    """A function on its first use: whole programs need this package, but not NVRTC."""
    if name == "compile_cuda":
        from weft.source.from_cuda import compile_cuda

        return compile_cuda
    if name == "read_ptx":
        from weft.source.from_ptx import read_ptx

        return read_ptx
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if not TYPE_CHECKING:  # a type checker must know a misspelt name
    __getattr__ = _import

__all__ = ["compile_cuda", "read_ptx"]
