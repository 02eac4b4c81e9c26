"""References of exercises that are no expression."""


def graph(steps):
    value = 0.0
    for step in range(steps):
        value = 0.5 * value + step
    return value
