"""C = A B, by a library for column-major matrices, as BLAS and cuBLAS are."""

import numpy as np


def gemm(m, n, k, a, lda, b, ldb, c, ldc):
    """c = a b; a is m x k, b is k x n. Columns follow one another, ld elements apart."""
    left = np.lib.stride_tricks.as_strided(a.reshape(-1), (m, k), (4, 4 * lda))
    right = np.lib.stride_tricks.as_strided(b.reshape(-1), (k, n), (4, 4 * ldb))
    result = np.lib.stride_tricks.as_strided(c.reshape(-1), (m, n), (4, 4 * ldc))
    result[...] = left @ right


def run(A, B, C, m, n, k):
    gemm(n, m, k, B, n, A, k, C, n)
