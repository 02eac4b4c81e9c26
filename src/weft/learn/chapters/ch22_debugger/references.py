"""References of exercises that are no expression."""


def parts(m):
    return sum((i % 5) ** 2 for i in range(1024 * m))
