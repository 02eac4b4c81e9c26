"""References of exercises that are no expression."""


def trip(n):
    return sum((i % 10) ** 2 for i in range(n))


def refused(n):
    block, launches = n, 0
    while block > 1024:
        block, launches = (block + 1) // 2, launches + 1
    return 10000 * launches + n


def managed(n):
    return sum(3 * (i % 8) + 1 for i in range(n))


def queue(n):
    return sum(2 * (i % 7) for i in range(n))


def replay(steps):
    values = [float(i) for i in range(256)]
    for _ in range(steps):
        values = [v / 2 + 1 for v in values]
    return sum(values)
