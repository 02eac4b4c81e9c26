"""Operations: ladders of kernels that compute them, and kernels as ops of PyTorch."""

from weft.ops.bind import as_op, verify

__all__ = ["as_op", "verify"]
