"""
rung:   00 python
idea:   three nested loops, as in the definition
arrays: numpy
bench:  M=64, N=64, K=64
"""


def run(A, B, C, M, N, K):
    a, b = A.tolist(), B.tolist()
    for i in range(M):
        for j in range(N):
            C[i, j] = sum(a[i][k] * b[k][j] for k in range(K))
