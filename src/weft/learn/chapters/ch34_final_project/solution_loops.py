"""The loss of a network of two layers and its gradients, with loops over plain numbers."""

import math


def gradients(x, t, w1, b1, w2, b2):
    n, k, h, c = len(x), len(w1), len(b1), len(b2)
    dw1, db1 = [[0.0] * h for _ in range(k)], [0.0] * h
    dw2, db2 = [[0.0] * c for _ in range(h)], [0.0] * c
    total = 0.0
    for row, label in zip(x, t, strict=True):
        a = [math.tanh(b1[j] + sum(row[i] * w1[i][j] for i in range(k))) for j in range(h)]
        z = [b2[j] + sum(a[i] * w2[i][j] for i in range(h)) for j in range(c)]
        most = max(z)
        parts = [math.exp(v - most) for v in z]  # no overflow: none is above 1
        total += most + math.log(sum(parts)) - z[label]
        # Of the mean loss, with respect to z: probability minus one for the label.
        d = [(part / sum(parts) - (j == label)) / n for j, part in enumerate(parts)]
        e = [(1 - a[i] ** 2) * sum(d[j] * w2[i][j] for j in range(c)) for i in range(h)]
        for j in range(c):
            db2[j] += d[j]
            for i in range(h):
                dw2[i][j] += a[i] * d[j]
        for j in range(h):
            db1[j] += e[j]
            for i in range(k):
                dw1[i][j] += row[i] * e[j]
    return total / n, dw1, db1, dw2, db2
