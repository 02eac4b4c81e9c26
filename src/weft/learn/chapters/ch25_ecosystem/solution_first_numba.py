"""Degrees Celsius to degrees Fahrenheit: one number for each thread."""

from numba import cuda


@cuda.jit
def convert(celsius, fahrenheit):
    i = cuda.grid(1)
    if i < celsius.size:
        fahrenheit[i] = 1.8 * celsius[i] + 32


def run(celsius, fahrenheit, n):
    convert[(n + 255) // 256, 256](celsius, fahrenheit)
