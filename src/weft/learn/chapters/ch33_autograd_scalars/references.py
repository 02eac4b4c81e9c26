"""References of exercises that are no expression."""


def linear(x, w, b, dy):
    return x @ w.T + b, dy @ w, dy.T @ x
