"""`nvidia.cublas.CublasLt` of Triton by PyTorch's products on the CPU, summed in float32."""

from __future__ import annotations

from typing import Any


class CublasLt:
    """Products of row-major matrices, the second of them transposed."""

    def __init__(self, workspace: Any) -> None:
        """The workspace is not needed."""

    def matmul(self, a: Any, b: Any, c: Any) -> None:
        """c = a @ b.T"""
        c.copy_(a.float() @ b.float().T)

    def gemm(self, a: Any, b: Any, c: Any, d: Any, alpha: float, beta: float) -> None:
        """d = alpha * a @ b.T + beta * c"""
        d.copy_(alpha * (a.float() @ b.float().T) + beta * c.float())


def install() -> None:
    """Replace the class, which needs NVIDIA's library and a GPU."""
    from triton._C.libtriton import nvidia

    if hasattr(nvidia, "cublas"):
        nvidia.cublas.CublasLt = CublasLt
