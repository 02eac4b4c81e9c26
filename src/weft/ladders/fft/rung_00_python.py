"""
rung:   00 python
idea:   the definition: every element of a row times a root of unity, for every result
arrays: numpy
bench:  rows=4, n=64
"""

import cmath


def run(x, w, staged, y, rows, n):
    for row in range(rows):
        values = [complex(re, im) for re, im in x[row].tolist()]
        for k in range(n):
            turn = [cmath.exp(-2j * cmath.pi * (j * k % n) / n) for j in range(n)]
            total = sum(v * t for v, t in zip(values, turn, strict=True))
            y[row, k] = total.real, total.imag
