"""A Jacobian by central differences, and that of a layer by hand."""

import numpy as np


def differences(f, x):
    columns = []
    for j in range(x.size):
        # The third root of the precision balances the error of the formula and of rounding.
        h = 6e-6 * max(1.0, abs(x[j]))
        above, below = x.copy(), x.copy()
        above[j] += h
        below[j] -= h
        # The step that was taken is not exactly 2 h: a sum is rounded.
        columns.append((f(above) - f(below)) / (above[j] - below[j]))
    return np.stack(columns, axis=1)


def by_hand(w, b, x):
    y = np.tanh(w @ x + b)
    return (1 - y * y)[:, None] * w
