"""
rung:   00 python
idea:   seven nested loops, as in the definition
arrays: numpy
bench:  N=1, C=1, H=28, W=28, K=4, R=3
"""


def run(x, w, y, N, C, H, W, K, R):
    X, weights, pad, taps = x.tolist(), w.tolist(), R // 2, range(R)

    def pixel(image, i, j):
        return image[i][j] if 0 <= i < H and 0 <= j < W else 0.0

    for n in range(N):
        for k in range(K):
            for i in range(H):
                for j in range(W):
                    y[n, k, i, j] = sum(
                        pixel(X[n][c], i + r - pad, j + s - pad) * weights[k][c][r][s]
                        for c in range(C)
                        for r in taps
                        for s in taps
                    )
